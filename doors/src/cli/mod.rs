//! The command line: only its types, and where each command goes.

mod act;
mod agent;
mod cert;
mod chain;
pub(crate) mod io;
pub(crate) mod keys;
mod obligation;
pub(crate) mod operator;
mod serve;
mod supervise;
mod vectors;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::Failure;

/// What a script needs to know (README, Operating it).
const EXIT_CODES: &str = "Exit codes: 0 ok, 1 refused or a negative verdict, 2 wrong usage, \
    3 a file, a port or a peer is not as it must be";

/// A witness and broker for signed responsibility chains between AI agents.
#[derive(Debug, Parser)]
#[command(name = "wikala", version, about, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Wikala {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a data directory: the record, the witness's key
    Init {
        /// The directory to make
        #[arg(long, env = "WIKALA_DATA")]
        data: PathBuf,
    },
    /// Serve a data directory
    Serve(Box<serve::ServeArgs>),
    /// Make a key file (PKCS#8 PEM, mode 0600)
    Keygen {
        /// The file to make
        file: PathBuf,
    },
    /// Show a key
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make, extend and verify chains
    #[command(subcommand)]
    Chain(ChainCommand),
    /// Issue, accept and verify session certificates
    #[command(subcommand)]
    Cert(CertCommand),
    /// Sign acts; prints the proof as JSON
    #[command(subcommand)]
    Act(ActCommand),
    /// Answers that are owed: ask, take, answer, withdraw, look
    #[command(subcommand)]
    Obligation(Box<obligation::ObligationCommand>),
    /// Check what a witness exported, without it
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Look at runs
    #[command(subcommand)]
    Run(RunCommand),
    /// Agents behind HTTP: the witness is their client
    #[command(subcommand)]
    Agent(AgentCommand),
    /// The operator's tree: every thread, whoever's
    Tree {
        /// The thread to begin at; all without it
        thread: Option<String>,
        /// The data directory
        #[arg(long, env = "WIKALA_DATA")]
        data: PathBuf,
    },
    /// Check or generate the vectors
    #[command(subcommand)]
    Vectors(VectorsCommand),
    /// A scripted agent over a real link
    Provider(ProviderArgs),
    /// Hold an agent's key and offer what it owes and is owed as local tools
    Supervise(supervise::SuperviseArgs),
    /// The supervisor's tools for a client of the Model Context Protocol
    Mcp(supervise::McpArgs),
    /// How much waits for whom, live
    Inbox(supervise::InboxArgs),
    /// The whole story in one command
    Demo {
        /// One JSON object a step
        #[arg(long)]
        json: bool,
        /// Keep the house open afterwards, with a run that waits and the key to answer it
        #[arg(long)]
        stay: bool,
    },
}

#[derive(Debug, Subcommand)]
enum VerifyCommand {
    /// An obligation's ledger, one entry a line; names the entry that was changed
    Ledger {
        /// The file, or - for stdin
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Print the public key and its fingerprint
    Show {
        /// A key file, or - for PEM or 64 hex digits on stdin
        file: PathBuf,
        /// `{"publicKey","fingerprint"}`
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum ChainCommand {
    /// Begin a chain
    New {
        /// The head's key file
        #[arg(long)]
        key: PathBuf,
    },
    /// Extend a chain by a hop
    Extend {
        /// The key file of who takes it on
        #[arg(long)]
        key: PathBuf,
        /// A JSON array of tokens, or - for stdin
        file: PathBuf,
    },
    /// Append a dispatch hop, as a witness does
    Dispatch {
        /// The witness's key file
        #[arg(long)]
        key: PathBuf,
        /// The provider's key, 64 hex
        #[arg(long)]
        provider: String,
        /// The agent's name
        #[arg(long)]
        name: String,
        /// A JSON array of tokens, or - for stdin
        file: PathBuf,
    },
    /// Verify a chain
    Verify {
        /// A JSON array of tokens, or - for stdin
        file: PathBuf,
        /// One JSON object
        #[arg(long)]
        json: bool,
        /// Also demand a dispatch signed by this witness's key, 64 hex
        #[arg(long)]
        witness: Option<String>,
    },
    /// Show every hop of a chain, verified or not; exit 1 with the first flaw
    Show {
        /// A JSON array of tokens, or - for stdin
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum CertCommand {
    /// Say that a session key acts for a durable key
    Issue {
        /// The durable key's file
        #[arg(long)]
        key: PathBuf,
        /// The session key, 64 hex
        #[arg(long)]
        delegate: String,
        /// How long from now, `8h`, `30m` or `90s`
        #[arg(long, default_value = "8h", conflicts_with = "expires_at")]
        ttl: String,
        /// Until when, unix seconds
        #[arg(long, value_parser = io::second)]
        expires_at: Option<u64>,
    },
    /// Consent, as the session key, to act for the durable key
    Accept {
        /// The session key's file
        #[arg(long)]
        key: PathBuf,
        /// The certificate, or - for stdin
        file: PathBuf,
    },
    /// Revoke a certificate, or with --all everything this key gave until now
    Revoke {
        /// The key file of who gave it, or of the session key for its own
        #[arg(long)]
        key: PathBuf,
        /// The witness's URL
        #[arg(long, env = "WIKALA_WITNESS")]
        witness: String,
        /// Everything this key gave until now
        #[arg(long, conflicts_with = "file")]
        all: bool,
        /// The certificate, or - for stdin
        #[arg(required_unless_present = "all")]
        file: Option<PathBuf>,
    },
    /// Verify a certificate
    Verify {
        /// The certificate, or - for stdin
        file: PathBuf,
        /// As of when, unix seconds; now without it
        #[arg(long, value_parser = io::second)]
        at: Option<u64>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Who signs an act, and as of when.
#[derive(Debug, Args)]
struct SignArgs {
    /// The signer's key file
    #[arg(long)]
    key: PathBuf,
    /// As of when, unix seconds; now without it
    #[arg(long, value_parser = io::second)]
    at: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum ActCommand {
    /// Answer a paused run (funduq-resolve)
    Resolve {
        #[command(flatten)]
        sign: SignArgs,
        /// The run
        run: String,
    },
    /// Answer a paused run, bound to the asks and the answer (wikala-answer), for POST /v1/runs/RUN/answer
    Answer {
        #[command(flatten)]
        sign: SignArgs,
        /// The run
        run: String,
        /// An open item's id as `run show` lists it; once for each, all of them
        #[arg(long = "ask", required = true)]
        asks: Vec<String>,
        /// The answer: JSON text is that value, other text a string; for several asks {"ID": value, ...}
        #[arg(long)]
        answer: String,
        /// Print the whole body to send: answer, asks, form and resolution
        #[arg(long)]
        body: bool,
    },
    /// Stop a run (funduq-cancel)
    Cancel {
        #[command(flatten)]
        sign: SignArgs,
        /// The run
        run: String,
    },
    /// Present a chain to an agent at a witness (wikala-present)
    Present {
        #[command(flatten)]
        sign: SignArgs,
        /// The witness's key, 64 hex
        #[arg(long)]
        witness: String,
        /// The provider's key, 64 hex
        #[arg(long)]
        provider: String,
        /// The agent's name
        #[arg(long)]
        name: String,
        /// The chain, a JSON array of tokens or - for stdin; none: chainless
        #[arg(long)]
        chain: Option<PathBuf>,
        /// 32 hex; random without it
        #[arg(long)]
        nonce: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
enum RunCommand {
    /// Show a run
    Show {
        /// The run
        run: String,
        /// A witness to ask over HTTP
        #[arg(long, conflicts_with = "data")]
        witness: Option<String>,
        /// Sign the request with this key file, as a bound run needs under --reads parties
        #[arg(long, requires = "witness")]
        key: Option<PathBuf>,
        /// The data directory, for the operator's view
        #[arg(long)]
        data: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Add an agent behind HTTP
    Add {
        /// The data directory
        #[arg(long, env = "WIKALA_DATA")]
        data: PathBuf,
        /// Its name here, 1 to 128 of A-Z a-z 0-9 _ -
        #[arg(long)]
        name: String,
        #[command(flatten)]
        at: AgentAt,
        #[command(flatten)]
        by: AgentBy,
        /// A file with headers to send to it, `Name: value` a line; read at each start
        #[arg(long)]
        headers: Option<PathBuf>,
    },
    /// List the agents behind HTTP
    List {
        /// The data directory
        #[arg(long, env = "WIKALA_DATA")]
        data: PathBuf,
    },
    /// Take an agent behind HTTP away; its history stays
    Remove {
        /// The data directory
        #[arg(long, env = "WIKALA_DATA")]
        data: PathBuf,
        /// Its name
        #[arg(long)]
        name: String,
        /// Its provider's key, 64 hex; needed where several have that name
        #[arg(long)]
        provider: Option<String>,
    },
    /// Ask an agent behind HTTP what it is; exit 1 if it cannot be spoken to
    Check {
        #[command(flatten)]
        at: AgentAt,
        /// A file with headers to send to it
        #[arg(long)]
        headers: Option<PathBuf>,
    },
    /// As its provider, consent that a witness dispatches to an address; prints the JSON for --consent
    Consent {
        /// The provider's key file
        #[arg(long)]
        key: PathBuf,
        /// The witness's key, 64 hex
        #[arg(long)]
        witness: String,
        /// The agent's name there
        #[arg(long)]
        name: String,
        /// The agent's address, exactly as it is added
        #[arg(long)]
        url: String,
    },
}

/// Where an agent is, and what it speaks.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct AgentAt {
    /// An A2A agent: where its card is found
    #[arg(long, value_parser = crate::upstream::outbound::address)]
    a2a: Option<String>,
    /// An AG-UI agent: where it is posted to
    #[arg(long, value_parser = crate::upstream::outbound::address)]
    agui: Option<String>,
}

/// Whose agent it is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct AgentBy {
    /// The provider's key file: it consents on the spot
    #[arg(long)]
    provider_key_file: Option<PathBuf>,
    /// The provider's consent, a JSON file made by `wikala agent consent`
    #[arg(long)]
    consent: Option<PathBuf>,
    /// Make a key for it that this witness holds; marked so wherever the agent is shown
    #[arg(long)]
    custodial: bool,
}

#[derive(Debug, Subcommand)]
enum VectorsCommand {
    /// Compare the files with what would be generated, and replay every case
    Check {
        /// The directory
        #[arg(default_value = "vectors")]
        dir: PathBuf,
    },
    /// Write every family
    Generate {
        /// The directory
        #[arg(default_value = "vectors")]
        dir: PathBuf,
    },
}

/// What `wikala provider` is told.
#[derive(Debug, Args)]
pub struct ProviderArgs {
    /// The witness's URL, for instance http://127.0.0.1:7420
    #[arg(long, env = "WIKALA_WITNESS")]
    pub witness: String,
    /// The provider's key file
    #[arg(long)]
    pub key: PathBuf,
    /// An agent's name; once for each
    #[arg(long = "name", default_value = "agent")]
    pub names: Vec<String>,
    /// How many runs at once; no limit is declared without it
    #[arg(long)]
    pub max_runs: Option<u64>,
}

/// How logs are written, to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Text as a terminal may be shown it: line ends stay, what else would move its cursor, change
/// its colours or turn its writing around is spelled as JSON escapes.
#[must_use]
pub fn visible(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            c if c.is_control() || turns(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Runs a command.
///
/// # Errors
/// How it ends otherwise: the exit code and one sentence.
pub fn run(wikala: Wikala) -> Result<(), Failure> {
    match wikala.command {
        Command::Init { data } => serve::init(&data),
        Command::Serve(args) => serve::serve(*args),
        Command::Keygen { file } => keys::keygen(&file),
        Command::Key(KeyCommand::Show { file, json }) => keys::show(&file, json),
        Command::Chain(command) => chain::run(command),
        Command::Cert(command) => cert::run(command),
        Command::Act(command) => act::run(command),
        Command::Obligation(command) => obligation::run(*command),
        Command::Verify(VerifyCommand::Ledger { file }) => obligation::verify_ledger(&file),
        Command::Run(RunCommand::Show { run, witness, key, data }) => operator::run_show(&run, witness, key, data),
        Command::Agent(command) => agent::run(command),
        Command::Tree { thread, data } => operator::tree(thread.as_deref(), &data),
        Command::Vectors(command) => vectors::run(command),
        Command::Provider(args) => {
            serve::logs(LogFormat::Text, "warn");
            serve::block_on(crate::provider::run(args))
        }
        Command::Supervise(args) => supervise::supervise(args),
        Command::Mcp(args) => supervise::mcp(&args),
        Command::Inbox(args) => supervise::inbox(&args),
        Command::Demo { json, stay } => {
            serve::logs(LogFormat::Text, "error");
            serve::block_on(crate::demo::run(crate::demo::Options { json, stay }))
        }
    }
}
