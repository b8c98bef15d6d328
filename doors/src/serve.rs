//! `wikala serve`: opens the house on a data directory, keeps it until it is told to
//! stop, and closes it in order: refuse new work, tell the streams, commit, exit.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use wikala_chain::{PublicKey, SigningKey};
use wikala_witness::obligation::Denied;
use wikala_witness::{Policy, PresenterPolicy, ReadPolicy};

use crate::config::Serve;
use crate::desk::Clock;
use crate::exit::Failure;
use crate::house::{self, Admission, App, Settings};
use crate::{control, http, link};

/// How long a caller that stops a run waits to see it stopped: an agent that stops at once
/// is told as stopped, any other as asked.
const STOP_TIME: std::time::Duration = std::time::Duration::from_secs(3);

/// The database in a data directory.
pub const DATABASE: &str = "wikala.db";
/// The witness's key.
pub const KEY: &str = "witness.pem";
/// Held while a process serves the directory.
pub const LOCK: &str = "lock";
/// The operator's socket, while it serves.
pub const CONTROL: &str = "control.sock";

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// 3: the directory, the address or the record cannot be used.
pub async fn run(config: Serve) -> Result<(), Failure> {
    let lock = lock(&config.data)?;
    let key = Arc::new(read_key(&config.data)?);
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        Failure::environment(format!("listen: {} cannot be bound ({error}), choose another --listen", config.listen))
    })?;
    let bound = listener.local_addr().map_err(|error| Failure::environment(format!("listen: {error}")))?;
    if config.policy.presenter == PresenterPolicy::Optional && config.policy.reads == ReadPolicy::Open {
        tracing::warn!("--presenter optional with --reads open: whoever reads a run can present its chain again");
    }
    if config.public_url.is_none() && bound.ip().is_unspecified() {
        tracing::warn!("--public-url is not set: signatures must cover http://{bound}, which nobody can call");
    }
    let public_url = config.public_url.clone().unwrap_or_else(|| format!("http://{bound}"));
    let admission = match &config.admission {
        None => Admission::Open,
        Some(file) => Admission::Listed(Arc::new(Mutex::new(admitted(file)?))),
    };
    let denied = match &config.entitlements {
        None => Vec::new(),
        Some(file) => denied(file)?,
    };
    let settings = Settings {
        public_url: public_url.trim_end_matches('/').to_owned(),
        policy: Policy { denied, ..config.policy.clone() },
        admission,
        keep_alive: config.keep_alive,
        ping: link::PING,
        body_time: crate::door::BODY_TIME,
        write_time: crate::http::WRITE_TIME,
        stop_time: STOP_TIME,
        gateway: config.gateway.clone(),
        behind_proxy: config.behind_proxy,
    };
    if let Some(address) = config.metrics_listen {
        serve_metrics(address).await?;
    }
    let opened = house::open(&config.data.join(DATABASE), key, settings, Clock::System)
        .map_err(|fault| Failure::record(&config.data, &fault))?;
    let app = opened.app;
    app.desk
        .ask(|witness, now| witness.recover(now))
        .await
        .map_err(|no| Failure::environment(format!("record: recovery failed ({no})")))?;
    crate::upstream::open(&app)
        .await
        .map_err(|no| Failure::environment(format!("record: upstream agents cannot be read ({no})")))?;
    let time = tokio::spawn(app.desk.clone().keep_time());
    let control = control::listen(&config.data.join(CONTROL), &config.data.join(DATABASE), &app)?;
    let serving =
        tokio::spawn(http::serve(app.clone(), listener, opened.close.subscribe(), config.shutdown_grace.mul_f32(0.8)));
    tracing::info!(listen = %bound, public_url = %app.settings.public_url, witness = %app.public_key().fingerprint(), "open");

    let mut desk_ended = opened.desk_ended;
    tokio::select! {
        told = until_told(&app, &config) => told?,
        // Without its desk the house can promise nothing: better gone than half alive.
        _ = &mut desk_ended => {
            return Err(Failure::environment("desk: ended by itself, see the log above, then start again"));
        }
    }
    tracing::info!("closing: no new work, streams are told");
    let deadline = tokio::time::Instant::now() + config.shutdown_grace;
    let _ = opened.close.send(true);
    let _ = serving.await;
    control.abort();
    time.abort();
    let _ = time.await;
    // The last handles: when they are gone the desk commits what waits, and ends.
    drop(app);
    let _ = tokio::time::timeout_at(deadline, desk_ended).await;
    let _ = std::fs::remove_file(config.data.join(CONTROL));
    drop(lock);
    tracing::info!("closed");
    Ok(())
}

/// Prometheus text on an address of its own: numbers are the operator's.
async fn serve_metrics(address: std::net::SocketAddr) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(format!(
            "metrics: {address} cannot be served ({error}), choose another --metrics-listen or off"
        ))
    };
    let recorder =
        metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder().map_err(|error| failed(&error))?;
    describe();
    let listener = TcpListener::bind(address).await.map_err(|error| failed(&error))?;
    let page = axum::Router::new().route("/metrics", axum::routing::get(move || std::future::ready(recorder.render())));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, page).await {
            tracing::error!(%error, "metrics are no longer served");
        }
    });
    Ok(())
}

/// What each number counts, for whoever reads the page.
fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("wikala_entries_total", "Entries put on record, by what they say");
    describe_counter!("wikala_refusals_total", "Refusals, by code");
    describe_counter!("wikala_offers_total", "Offers made to providers");
    describe_counter!("wikala_link_events_total", "Events received from providers");
    describe_gauge!("wikala_links", "Links attached");
    describe_gauge!("wikala_open", "Open streams, and sockets that have yet to greet");
    describe_histogram!("wikala_desk_group_jobs", "Jobs that shared one commit");
}

/// Waits for SIGTERM or SIGINT; SIGHUP rereads the lists.
async fn until_told(app: &App, config: &Serve) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::environment(format!("signals: {error}")));
    let mut term = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    // One line on stdout for whoever started us: the address, with the port that was free.
    // Not before the signals are heard: who reads it may stop us at once.
    // Nobody may be reading: that is no reason not to serve.
    let line = format!("wikala {} serves {}\n", app.public_key().fingerprint(), app.settings.public_url);
    let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
    loop {
        tokio::select! {
            _ = term.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hang_up.recv() => {
                // A list that does not read admits nobody new, evicts nobody and denies what it did.
                match config.admission.as_deref().map(admitted).transpose() {
                    Ok(Some(keys)) => link::readmit(app, keys).await,
                    Ok(None) => {}
                    Err(failure) => tracing::error!(%failure, "the admission list stays as it was"),
                }
                match config.entitlements.as_deref().map(denied).transpose() {
                    Ok(Some(list)) => {
                        let set = app.desk.ask(move |witness, _| { witness.set_denied(list); Ok(()) }).await;
                        if let Err(no) = set {
                            tracing::error!(%no, "the list of what is denied stays as it was");
                        }
                    }
                    Ok(None) => {}
                    Err(failure) => tracing::error!(%failure, "the list of what is denied stays as it was"),
                }
            }
        }
    }
}

/// Takes the lock of a data directory; it is given back when the file is closed,
/// also by a kill.
///
/// # Errors
/// 3: no such directory, or another process serves it.
pub fn lock(data: &Path) -> Result<File, Failure> {
    if !data.join(KEY).exists() {
        return Err(Failure::environment(format!(
            "data: {} holds no witness, run `wikala init --data {}` first",
            data.display(),
            data.display()
        )));
    }
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(data.join(LOCK))
        .map_err(|error| Failure::environment(format!("data: {} cannot be locked ({error})", data.display())))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(_) => Err(Failure::environment(format!("data: another process serves {}, stop it first", data.display()))),
    }
}

/// The key of the witness in a data directory.
///
/// # Errors
/// 3: it cannot be read.
pub fn read_key(data: &Path) -> Result<SigningKey, Failure> {
    let path = data.join(KEY);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::environment(format!("key: {} cannot be read ({error})", path.display())))?;
    SigningKey::from_pem(&text).map_err(|error| Failure::environment(format!("key: {}: {error}", path.display())))
}

/// The admission list: one key a line.
fn admitted(file: &Path) -> Result<HashSet<PublicKey>, Failure> {
    let read = |line: &str| PublicKey::from_hex(line).map_err(|error| format!("{error}, one key of 64 hex a line"));
    Ok(lines(file, "admission", read)?.into_iter().collect())
}

/// What is denied about obligations, a line each.
fn denied(file: &Path) -> Result<Vec<Denied>, Failure> {
    lines(file, "entitlements", |line| Denied::parse(line).map_err(str::to_owned))
}

/// A list of the operator's: an entry a line, `#` begins a comment.
fn lines<T>(file: &Path, what: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::environment(format!("{what}: {} cannot be read ({error})", file.display())))?;
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or("").trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| {
            read(line).map_err(|error| Failure::environment(format!("{what}: {} line {n}: {error}", file.display())))
        })
        .collect()
}
