//! `init` and `serve`: flags into settings, a directory made with care, a runtime.

use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wikala_chain::SigningKey;
use wikala_witness::{AnswerPolicy, Policy, PresenterPolicy, ReadPolicy, Witness};

use super::{LogFormat, io, keys};
use crate::exit::Failure;
use crate::house::Gateway;
use crate::{config, serve as house};

/// What `wikala serve` is told; every flag is also `WIKALA_*`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// The data directory, made by `wikala init`
    #[arg(long, env = "WIKALA_DATA")]
    data: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, env = "WIKALA_LISTEN", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// What clients call and sign, with the path prefix a proxy strips; http://<bound> without it
    #[arg(long, env = "WIKALA_PUBLIC_URL", value_parser = config::public_url)]
    public_url: Option<String>,
    /// Must a chain's presenter be proved
    #[arg(long, env = "WIKALA_PRESENTER", default_value = "required")]
    presenter: Presenter,
    /// Who may attach as a provider: open, or a file with one key a line (reread on SIGHUP)
    #[arg(long, env = "WIKALA_ADMISSION", default_value = "open")]
    admission: String,
    /// What is denied about obligations: a file with `deny obligation.create|respond|update|cancel KEY
    /// [THREAD]` a line, `*` for any (reread on SIGHUP)
    #[arg(long, env = "WIKALA_ENTITLEMENTS")]
    entitlements: Option<PathBuf>,
    /// Who may read a bound thread whose id they know
    #[arg(long, env = "WIKALA_READS", default_value = "open")]
    reads: Reads,
    /// Which proofs may answer
    #[arg(long, env = "WIKALA_ANSWERS", default_value = "any")]
    answers: Answers,
    /// How long a provider may take to answer an offer
    #[arg(long, env = "WIKALA_OFFER_TIMEOUT", default_value = "5s", value_parser = config::span)]
    offer_timeout: Duration,
    /// How long a queued run waits for an agent that nobody serves
    #[arg(long, env = "WIKALA_UNSERVED", default_value = "45s", value_parser = config::span)]
    unserved: Duration,
    /// How long a lost link keeps its runs
    #[arg(long, env = "WIKALA_LINK_GRACE", default_value = "30s", value_parser = config::span)]
    link_grace: Duration,
    /// How often an idle stream gets a comment
    #[arg(long, env = "WIKALA_KEEPALIVE", default_value = "15s", value_parser = config::span)]
    keepalive: Duration,
    /// How long closing may take
    #[arg(long, env = "WIKALA_SHUTDOWN_GRACE", default_value = "10s", value_parser = config::span)]
    shutdown_grace: Duration,
    /// Where metrics are served, or off
    #[arg(long, env = "WIKALA_METRICS_LISTEN", default_value = "127.0.0.1:7421")]
    metrics_listen: String,
    /// Plain HTTP off loopback is meant: a proxy in front speaks TLS
    // The variable may say 1, yes or on: whoever sets it means it.
    #[arg(long, env = "WIKALA_BEHIND_PROXY", value_parser = clap::builder::BoolishValueParser::new())]
    behind_proxy: bool,
    /// A gateway's network: its header may name a presenter
    #[arg(long, env = "WIKALA_TRUSTED_GATEWAY", value_parser = config::network, requires = "presenter_header", requires = "gateway_secret_file")]
    trusted_gateway: Option<(std::net::IpAddr, u8)>,
    /// The header in which the gateway names a presenter
    #[arg(long, env = "WIKALA_PRESENTER_HEADER", value_parser = config::header_name, requires = "trusted_gateway")]
    presenter_header: Option<String>,
    /// A file with what the gateway sends in wikala-gateway-secret
    #[arg(long, env = "WIKALA_GATEWAY_SECRET_FILE", requires = "trusted_gateway")]
    gateway_secret_file: Option<PathBuf>,
    /// How logs are written, to stderr
    #[arg(long, env = "WIKALA_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Presenter {
    /// A chain needs proof of who presents it
    Required,
    /// The last hop is taken at its word, as the reference does
    Optional,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Reads {
    /// Everybody
    Open,
    /// Its chain's parties and its provider
    Parties,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Answers {
    /// funduq-resolve everywhere, wikala-answer on our own route
    Any,
    /// Only wikala-answer, bound to asks and answer
    Bound,
}

impl ServeArgs {
    fn settings(self) -> Result<config::Serve, Failure> {
        let gateway = match (self.trusted_gateway, self.presenter_header, self.gateway_secret_file) {
            (Some(network), Some(header), Some(file)) => {
                let secret = std::fs::read_to_string(&file).map_err(|error| {
                    Failure::environment(format!("--gateway-secret-file: {} cannot be read ({error})", file.display()))
                })?;
                let secret = secret.trim().to_owned();
                if secret.len() < 16 {
                    return Err(Failure::environment(
                        "--gateway-secret-file: shorter than 16 characters, make a longer one",
                    ));
                }
                Some(Gateway { network, header, secret })
            }
            _ => None,
        };
        let metrics_listen = match self.metrics_listen.as_str() {
            "off" => None,
            text => Some(text.parse().map_err(|_| Failure::usage("--metrics-listen: not address:port, or write off"))?),
        };
        config::Serve {
            data: self.data,
            listen: self.listen,
            public_url: self.public_url,
            policy: Policy {
                presenter: match self.presenter {
                    Presenter::Required => PresenterPolicy::Required,
                    Presenter::Optional => PresenterPolicy::Optional,
                },
                answers: match self.answers {
                    Answers::Any => AnswerPolicy::Any,
                    Answers::Bound => AnswerPolicy::Bound,
                },
                reads: match self.reads {
                    Reads::Open => ReadPolicy::Open,
                    Reads::Parties => ReadPolicy::Parties,
                },
                offer_timeout_s: self.offer_timeout.as_secs(),
                unserved_s: self.unserved.as_secs(),
                link_grace_s: self.link_grace.as_secs(),
                denied: Vec::new(),
            },
            entitlements: self.entitlements,
            admission: (self.admission != "open").then(|| PathBuf::from(self.admission)),
            keep_alive: self.keepalive,
            shutdown_grace: self.shutdown_grace,
            metrics_listen,
            behind_proxy: self.behind_proxy,
            gateway,
        }
        .check()
    }
}

/// `serve`.
pub(super) fn serve(args: ServeArgs) -> Result<(), Failure> {
    logs(args.log_format, "info");
    let settings = args.settings()?;
    half_a_house(&settings.data)?;
    block_on(house::run(settings))
}

/// A record without its key, or a key without its record, is what a lost or half-restored
/// file leaves behind. Neither is made anew: another key could not go on with the record,
/// and an empty record would take every act of the last minute a second time.
fn half_a_house(data: &Path) -> Result<(), Failure> {
    let (has, lost) = match (data.join(house::DATABASE).exists(), data.join(house::KEY).exists()) {
        (true, false) => ("a record but no key", house::KEY),
        (false, true) => ("a key but no record", house::DATABASE),
        _ => return Ok(()),
    };
    Err(Failure::environment(format!(
        "data: {} has {has}, restore {lost} from your backup, or begin anew in another directory",
        data.display()
    )))
}

/// `init`: a directory of mode 0700, a key of mode 0600 before its first byte, an
/// empty record. Nothing that is there is ever written over.
pub(super) fn init(data: &Path) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::environment(format!("data: {} cannot be made ({error})", data.display()));
    half_a_house(data)?;
    if data.join(house::KEY).exists() || data.join(house::DATABASE).exists() {
        return Err(Failure::environment(format!(
            "data: {} holds a witness already, serve it or choose another directory",
            data.display()
        )));
    }
    if data.is_dir() {
        // The control socket and the key rely on it.
        let empty = std::fs::read_dir(data).map_err(failed)?.next().is_none();
        if !empty {
            return Err(Failure::environment(format!("data: {} is not empty, choose a new directory", data.display())));
        }
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    } else {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
    }
    let key = SigningKey::generate();
    keys::write(&data.join(house::KEY), &key)?;
    let public = key.public();
    // Private before SQLite writes to it; its journals take over the mode.
    let private = || std::fs::File::options().write(true).create_new(true).mode(0o600).open(data.join(house::DATABASE));
    private().map_err(failed)?;
    Witness::open(&data.join(house::DATABASE), Arc::new(key), Policy::default())
        .map_err(|fault| Failure::record(data, &fault))?;
    io::say(format!(
        "witness {public}\nfingerprint {}\nserve it with: wikala serve --data {}",
        public.fingerprint(),
        data.display()
    ))
}

/// Logs to stderr; `RUST_LOG` has the last word.
pub(super) fn logs(format: LogFormat, level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new(format!("warn,wikala_doors={level},wikala_witness={level}"))
    });
    // Colours are for terminals; a file gets plain text.
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A log that cannot be written is told to stderr, which may be what failed: that
        // panics, and takes the desk with it.
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr);
    // A second subscriber is a test's; the first one stays.
    let _ = match format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
}

/// A runtime for a command that waits.
pub(super) fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::environment(format!("runtime: {error}")))?
        .block_on(work)
}
