//! `supervise`, `mcp`, `inbox`: the harness side at a terminal.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::Value;

use super::{LogFormat, io, serve};
use crate::exit::Failure;
use crate::supervisor::ipc::{self, Local};
use crate::supervisor::{Options, Supervisor};

/// What `wikala supervise` is told.
#[derive(Debug, Args)]
pub(super) struct SuperviseArgs {
    /// The agent's key file; it stays with this process
    #[arg(long)]
    key: PathBuf,
    /// The witness's URL
    #[arg(long, env = "WIKALA_WITNESS")]
    witness: String,
    /// Where it keeps what it must not forget, and its socket
    #[arg(long, env = "WIKALA_SUPERVISOR")]
    dir: PathBuf,
}

/// What `wikala mcp` is told.
#[derive(Debug, Args)]
pub(super) struct McpArgs {
    /// The supervisor's directory
    #[arg(long, env = "WIKALA_SUPERVISOR")]
    dir: PathBuf,
    /// Streamable HTTP on loopback instead of stdio, 127.0.0.1:PORT
    #[arg(long)]
    listen: Option<SocketAddr>,
}

/// What `wikala inbox` is told.
#[derive(Debug, Args)]
pub(super) struct InboxArgs {
    /// The supervisor's directory
    #[arg(long, env = "WIKALA_SUPERVISOR")]
    dir: PathBuf,
    /// One JSON object a change
    #[arg(long)]
    json: bool,
    /// As it is now, and end
    #[arg(long)]
    once: bool,
}

pub(super) fn supervise(args: SuperviseArgs) -> Result<(), Failure> {
    serve::logs(LogFormat::Text, "warn");
    let options = Options {
        key: Arc::new(io::key(&args.key)?),
        witness: io::witness_url(&args.witness)?,
        dir: args.dir.clone(),
        clock: || io::moment(None),
    };
    serve::block_on(async move {
        let supervisor = Supervisor::open(options)?;
        let working = supervisor.clone();
        let work = async move { working.work().await };
        let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(|error| Failure::environment(format!("signals: {error}")))?;
        io::say(format!("supervising in {}, tools at {}", args.dir.display(), args.dir.join(ipc::SOCKET).display()))?;
        tokio::select! {
            served = ipc::serve(&args.dir, supervisor) => served,
            () = work => Ok(()),
            // What waits is on disk; what is under way is sent again as it was.
            _ = ended.recv() => Ok(()),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

pub(super) fn mcp(args: &McpArgs) -> Result<(), Failure> {
    // Stdout is the protocol's.
    serve::logs(LogFormat::Text, "warn");
    serve::block_on(async move {
        match args.listen {
            None => crate::mcp::stdio(&args.dir).await,
            Some(listen) => crate::mcp::http(&args.dir, listen).await,
        }
    })
}

pub(super) fn inbox(args: &InboxArgs) -> Result<(), Failure> {
    serve::block_on(async move {
        let local = Local::of(&args.dir);
        let gone = |no: crate::supervisor::desk::No| Failure::environment(no.sentence());
        if args.once {
            let inbox = local.call("wikala.obligation.inbox", &Value::Null).await.map_err(gone)?;
            return show(&inbox, args.json, false);
        }
        let live = std::io::stdout().is_terminal() && !args.json;
        let mut failed = Ok(());
        let watched = local.watch(|inbox| {
            if failed.is_ok() {
                failed = show(inbox, args.json, live);
            }
        });
        tokio::select! {
            watched = watched => watched.map_err(gone)?,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        failed?;
        Err(Failure::environment(nobody(&args.dir)))
    })
}

fn nobody(dir: &Path) -> String {
    format!("dir: the supervisor of {} ended, start it again", dir.display())
}

/// Shows the inbox; a live one in place of what was shown before.
fn show(inbox: &Value, as_json: bool, live: bool) -> Result<(), Failure> {
    if as_json {
        return io::say(inbox);
    }
    let bold = live && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    let begin = if live { "\x1b[2J\x1b[H" } else { "" };
    io::say(format!("{begin}{}", page(inbox, width, bold)))
}

/// The six counts and how fresh they are, no line wider than `width`.
fn page(inbox: &Value, width: usize, bold: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    match inbox["counters"].as_object() {
        None => lines.push("not counted yet".to_owned()),
        Some(counters) => {
            let longest = counters.keys().map(String::len).max().unwrap_or(0);
            for (name, count) in counters {
                let zero = *count == 0;
                let count = count.to_string();
                let line = match name.len() + 2 + count.len() <= width && longest + 8 <= width {
                    true => format!("{name:longest$} {count:>6}"),
                    false => format!("{count} {name}"),
                };
                let line: String = line.chars().take(width.max(8)).collect();
                lines.push(if bold && !zero { format!("\x1b[1m{line}\x1b[0m") } else { line });
            }
        }
    }
    let at = inbox["as_of"].as_u64().map(|at| {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at.min(253_402_300_799));
        humantime::format_rfc3339_seconds(at).to_string()
    });
    let state = match (at, inbox["fresh"] == true) {
        (Some(at), true) => format!("as of {at}"),
        (Some(at), false) => format!("not fresh, as of {at}"),
        (None, _) => "not fresh".to_owned(),
    };
    let mut below = vec![state];
    below.extend(inbox["trouble"].as_str().map(str::to_owned));
    if let Some(waiting @ 1..) = inbox["waiting_acts"].as_u64() {
        below.push(format!("{waiting} of your acts wait for the witness"));
    }
    for text in below {
        lines.extend(wrapped(&text, width.max(8)));
    }
    lines.join("\n")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: &str = word;
        loop {
            let line = lines.last_mut().expect("one is there");
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + rest.chars().count() <= width {
                line.push_str(&" ".repeat(gap));
                line.push_str(rest);
                break;
            }
            if used > 0 {
                lines.push(String::new());
                continue;
            }
            // Longer than a line by itself.
            let cut = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            line.push_str(&rest[..cut]);
            rest = &rest[cut..];
            if rest.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    // Controls in what a witness says are not ours to pass on to a terminal.
    lines.into_iter().map(|line| line.chars().filter(|c| !c.is_control()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let counters = crate::supervisor::counters::Counters::default().to_json();
        let inbox = json!({
            "counters": counters, "as_of": 1_800_000_000_u64, "fresh": false, "waiting_acts": 2,
            "trouble": format!("http://127.0.0.1:1/{} was not \u{1b}[31mreached", "x".repeat(90)),
        });
        for width in [8, 12, 20, 40, 80, 200] {
            let page = page(&inbox, width, false);
            assert!(page.lines().all(|line| line.chars().count() <= width), "{width}:\n{page}");
            assert!(!page.contains('\u{1b}'), "{page}");
        }
        assert!(page(&inbox, 80, true).contains("unread_information      0\n"), "nothing to be bold about");
        assert!(page(&json!({ "counters": null, "fresh": false }), 80, true).starts_with("not counted yet"));
    }
}
