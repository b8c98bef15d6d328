//! The carrier of one upstream agent: our own link to it, which takes what is offered,
//! lets each run go its way, and hands on who asked to stop.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wikala_witness::{Delivery, Dialect, LinkId, No, Registration, RunId, Upstream, Verdict};

use super::a2a;
use super::agui;
use super::outbound::Outbound;
use super::peer::Peer;
use super::run::Run;
use crate::house::{App, ToLink};

/// How long an agent that could not be reached is left alone, at first and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How an agent is spoken to.
#[derive(Debug)]
enum Way {
    AgUi(Box<Outbound>, String),
    A2a(Box<Peer>),
}

/// Serves one upstream agent until it is removed or the house closes.
pub(super) async fn serve(app: App, upstream: Upstream) {
    let mut closing = app.closing.clone();
    tokio::select! {
        _ = closing.wait_for(|closing| *closing) => {}
        () = serving(&app, &upstream) => {}
    }
}

async fn serving(app: &App, upstream: &Upstream) {
    let name = upstream.agent.name.as_str();
    // An agent nobody can reach is offline, and says so; its runs keep their lease.
    let Some((way, registration)) = reached(app, upstream).await else { return };
    let (added, links) = (upstream.clone(), app.links.clone());
    let attached = app
        .desk
        .ask(move |witness, now| {
            let (link, held) = witness.attach_upstream(now, &added, &registration)?;
            // Here and not later, or an offer of this same commit would find nobody.
            Ok((link, links.open(link), held))
        })
        .await;
    let (link, told, held) = match attached {
        Ok(attached) => attached,
        Err(no) => return tracing::error!(%no, name, "an upstream agent could not be attached"),
    };
    tracing::info!(link = link.0, name, url = upstream.url, "upstream agent attached");
    Carrier { app: app.clone(), link, way: Arc::new(way), stops: HashMap::new(), runs: JoinSet::new() }
        .work(told, held)
        .await;
    app.links.close(link);
    if let Err(no) = app.desk.ask(move |witness, now| witness.detach(now, link)).await {
        tracing::error!(%no, name, "an upstream agent could not be detached");
    }
}

/// Reads what is to be known of an agent before it can be spoken to, however long it takes.
/// `None`: it was removed meanwhile, or is another one by now.
async fn reached(app: &App, upstream: &Upstream) -> Option<(Way, Registration)> {
    let patience = Duration::from_secs(app.settings.policy.link_grace_s);
    let mut wait = PATIENCE.0;
    loop {
        let known = app.readers.read(|reader| reader.upstreams()).await.unwrap_or_default();
        if !known.contains(upstream) {
            return None;
        }
        match reach(upstream, patience).await {
            Ok(reached) => return Some(reached),
            Err(why) => tracing::warn!(name = upstream.agent.name.as_str(), why, "upstream agent not reached"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(PATIENCE.1);
    }
}

async fn reach(upstream: &Upstream, patience: Duration) -> Result<(Way, Registration), String> {
    let outbound = Outbound::open(upstream.headers.as_deref().map(Path::new))?;
    let name = upstream.agent.name.clone();
    let (way, text) = match upstream.dialect {
        Dialect::A2a => {
            let peer = Peer::meet(outbound, &upstream.url).await?.patient(patience);
            let text = peer.card.registration(name.as_str());
            (Way::A2a(Box::new(peer)), text)
        }
        _ => {
            let text = serde_json::json!({ "name": name.as_str() }).to_string();
            (Way::AgUi(Box::new(outbound.patient(patience)), upstream.url.clone()), text)
        }
    };
    Ok((way, Registration { name, interjections: false, text }))
}

struct Carrier {
    app: App,
    link: LinkId,
    way: Arc<Way>,
    /// How each run under way is told to stop.
    stops: HashMap<RunId, watch::Sender<bool>>,
    runs: JoinSet<RunId>,
}

impl Carrier {
    async fn work(mut self, mut told: mpsc::Receiver<ToLink>, held: Vec<RunId>) {
        for run in held {
            self.go_on(run).await;
        }
        loop {
            tokio::select! {
                what = told.recv() => match what {
                    Some(ToLink::Offer(delivery)) => self.take(*delivery).await,
                    Some(ToLink::AskToStop(run)) => {
                        if let Some(stop) = self.stops.get(&run) {
                            let _ = stop.send(true);
                        }
                    }
                    Some(ToLink::Close(_)) | None => return,
                },
                Some(done) = self.runs.join_next(), if !self.runs.is_empty() => {
                    // A later leg of the run may be under way by now, and its stop is not this one's.
                    if let Ok(run) = done
                        && self.stops.get(&run).is_some_and(watch::Sender::is_closed)
                    {
                        self.stops.remove(&run);
                    }
                }
            }
        }
    }

    async fn take(&mut self, delivery: Delivery) {
        let (link, run) = (self.link, delivery.run.clone());
        let taken = self.app.desk.ask(move |w, now| w.verdict(now, link, &run, Verdict::Accepted)).await;
        match taken {
            Ok(true) => self.start(delivery, false),
            // Withdrawn or cancelled meanwhile.
            Ok(false) => {}
            Err(no) => tracing::error!(%no, "an offer to an upstream could not be taken"),
        }
    }

    /// A run that was under way when the witness stopped.
    async fn go_on(&mut self, run: RunId) {
        let id = run.clone();
        let delivery: Result<Delivery, No> = self.app.desk.ask(move |w, _| w.delivered(&id)).await;
        match delivery {
            Ok(delivery) => self.start(delivery, true),
            Err(no) => tracing::error!(%no, %run, "a run at an upstream could not be taken up again"),
        }
    }

    fn start(&mut self, delivery: Delivery, again: bool) {
        let (stop, stopping) = watch::channel(false);
        let id = delivery.run.clone();
        self.stops.insert(id.clone(), stop);
        let way = self.way.clone();
        let run = Run { app: self.app.clone(), link: self.link, delivery, stop: stopping };
        self.runs.spawn(async move {
            match (&*way, again) {
                (Way::AgUi(outbound, url), false) => agui::carry(&run, outbound, url).await,
                // Its stream went with the process that read it, and nothing brings it back.
                (Way::AgUi(..), true) => run.fail("upstream_truncated: the witness stopped meanwhile".into()).await,
                (Way::A2a(peer), again) => a2a::carry(&run, peer, again).await,
            }
            run.finish().await;
            id
        });
    }
}
