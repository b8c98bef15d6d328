//! What every door shares: the desk, the readers, the subscribers, the links.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Uri;
use tokio::sync::{mpsc, watch};
use wikala_chain::{PrefixCache, PublicKey, SigningKey};
use wikala_witness::{Delivery, Effect, LinkId, Policy, RunId};

use crate::desk::{Desk, Outward};
use crate::fanout::Fanout;
use crate::limits::Limits;
use crate::obligations::wake::Wakes;
use crate::readers::Readers;

/// How many frames may wait for a link's reader; one more closes the link.
pub const LINK_WAITING: usize = 256;

/// The house, shared by every request.
pub type App = Arc<House>;

/// What every door shares.
#[derive(Debug)]
pub struct House {
    /// The one road in.
    pub desk: Desk,
    /// The roads to read.
    pub readers: Readers,
    /// Who listens to which run.
    pub fanout: Arc<Fanout>,
    /// Who is attached.
    pub links: Arc<Links>,
    /// Which parties want to know that something of theirs changed.
    pub wakes: Arc<Wakes>,
    /// Valid chain prefixes seen lately.
    pub cache: PrefixCache,
    /// The witness's key.
    pub key: Arc<SigningKey>,
    /// 32 bytes that authenticate tickets.
    pub secret: [u8; 32],
    /// The operator's decisions.
    pub settings: Settings,
    /// What one address may do.
    pub limits: Limits,
    /// True once the house closes: refuse new work, tell the streams.
    pub closing: watch::Receiver<bool>,
}

/// The operator's decisions that the doors need.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Scheme, authority and the path prefix that a proxy strips; no trailing slash.
    pub public_url: String,
    /// What the record needs.
    pub policy: Policy,
    /// Who may attach.
    pub admission: Admission,
    /// A comment on every idle stream.
    pub keep_alive: Duration,
    /// How long a request's body may take to arrive.
    pub body_time: Duration,
    /// How long a peer may take none of what is written to it: then its place is free.
    pub write_time: Duration,
    /// How often a link is tried; after two pings without a sign of life it is lost.
    pub ping: Duration,
    /// How long a caller that stops a run waits to see it stopped.
    pub stop_time: Duration,
    /// A gateway that may vouch for presenters.
    pub gateway: Option<Gateway>,
    /// A proxy is in front: it names the clients that limits count.
    pub behind_proxy: bool,
}

/// Who may attach as a provider.
#[derive(Debug, Clone)]
pub enum Admission {
    /// Any key.
    Open,
    /// The keys of a list, reread on SIGHUP.
    Listed(Arc<Mutex<std::collections::HashSet<PublicKey>>>),
}

impl Admission {
    /// May this key attach?
    #[must_use]
    pub fn admits(&self, key: &PublicKey) -> bool {
        match self {
            Admission::Open => true,
            Admission::Listed(keys) => keys.lock().is_ok_and(|keys| keys.contains(key)),
        }
    }
}

/// A gateway trusted to name presenters (wire.md, Presenter).
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Its network, matched on the TCP peer.
    pub network: (IpAddr, u8),
    /// The header that names the presenter, 64 hex.
    pub header: String,
    /// What it must send in `wikala-gateway-secret`.
    pub secret: String,
}

impl House {
    /// The witness's public key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// The address a client signed: what it was told plus what arrived. Never from
    /// `Host` or forwarding headers, which anyone may set.
    #[must_use]
    pub fn target_uri(&self, received: &Uri) -> String {
        let path = received.path_and_query().map_or("/", |path| path.as_str());
        format!("{}{path}", self.settings.public_url)
    }

    /// The house is closing.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }
}

/// What a link's writer is told.
#[derive(Debug)]
pub enum ToLink {
    /// Offer a run.
    Offer(Box<Delivery>),
    /// Ask to stop a run.
    AskToStop(RunId),
    /// Close, and say why.
    Close(&'static str),
}

/// The live links' writers.
#[derive(Debug, Default)]
pub struct Links(Mutex<HashMap<LinkId, mpsc::Sender<ToLink>>>);

impl Links {
    /// Registers a link's writer. Before the roster, so that no offer is missed.
    pub fn open(&self, link: LinkId) -> mpsc::Receiver<ToLink> {
        let (out, waiting) = mpsc::channel(LINK_WAITING);
        if let Ok(mut links) = self.0.lock() {
            links.insert(link, out);
            metrics::gauge!("wikala_links").set(links.len() as f64);
        }
        waiting
    }

    /// Forgets a link's writer.
    pub fn close(&self, link: LinkId) {
        if let Ok(mut links) = self.0.lock() {
            links.remove(&link);
            metrics::gauge!("wikala_links").set(links.len() as f64);
        }
    }

    fn tell(&self, link: LinkId, what: ToLink) {
        let Ok(mut links) = self.0.lock() else { return };
        if let Some(out) = links.get(&link)
            && out.try_send(what).is_err()
        {
            // Too slow or gone: dropping the writer ends its task, which detaches it.
            tracing::warn!(link = link.0, "link closed: it reads too slowly");
            links.remove(&link);
        }
    }
}

/// Where effects go.
#[derive(Debug, Clone)]
pub struct Wires {
    /// Subscribers.
    pub fanout: Arc<Fanout>,
    /// Links.
    pub links: Arc<Links>,
    /// Parties that are listened for.
    pub wakes: Arc<Wakes>,
}

impl Outward for Wires {
    fn carry(&self, effect: Effect) {
        match effect {
            Effect::Tell { run, recorded } => {
                metrics::counter!("wikala_entries_total", "what" => recorded.entry.kind()).increment(1);
                self.fanout.tell(&run, recorded);
            }
            Effect::Offer { link, delivery } => {
                metrics::counter!("wikala_offers_total").increment(1);
                self.links.tell(link, ToLink::Offer(delivery));
            }
            Effect::AskToStop { link, run } => self.links.tell(link, ToLink::AskToStop(run)),
            Effect::Wake { party } => self.wakes.wake(&party),
            Effect::Close { link, reason } => self.links.tell(link, ToLink::Close(reason)),
        }
    }
}

/// An open house, before it listens.
#[derive(Debug)]
pub struct Opened {
    /// What the doors share.
    pub app: App,
    /// Say `true` to close: new work is refused, streams are told.
    pub close: watch::Sender<bool>,
    /// The desk has committed its last job.
    pub desk_ended: tokio::sync::oneshot::Receiver<()>,
}

/// Opens the record at `path`, recovers what a stop left behind, and starts the desk.
///
/// # Errors
/// The file is of a newer build, of another witness, or cannot be opened.
pub fn open(
    path: &std::path::Path,
    key: Arc<SigningKey>,
    settings: Settings,
    clock: crate::desk::Clock,
) -> Result<Opened, wikala_witness::OpenFault> {
    let witness = wikala_witness::Witness::open(path, key.clone(), settings.policy.clone())?;
    let secret = witness.secret()?;
    let fanout = Arc::new(Fanout::default());
    let links = Arc::new(Links::default());
    let wakes = Arc::new(Wakes::default());
    let wires = Wires { fanout: fanout.clone(), links: links.clone(), wakes: wakes.clone() };
    let (desk, desk_ended) = Desk::open(witness, clock, wires)?;
    let readers = Readers::open(path, &settings.policy)?;
    let (close, closing) = watch::channel(false);
    let app = Arc::new(House {
        desk,
        readers,
        fanout,
        links,
        wakes,
        cache: PrefixCache::new(PREFIXES),
        key,
        secret,
        settings,
        limits: Limits::default(),
        closing,
    });
    Ok(Opened { app, close, desk_ended })
}

/// How many verified chain prefixes are remembered, about 100 bytes each.
const PREFIXES: usize = 65_536;
