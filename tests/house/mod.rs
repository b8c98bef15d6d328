//! A house in process: a real port, a hand-set clock that drives every deadline, and
//! a provider that is attached at the desk itself (the link's own tests use sockets).
#![allow(dead_code)] // each module of the tests uses its own part

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use wikala_chain::{AgentName, SigningKey};
use wikala_doors::desk::Clock;
use wikala_doors::house::{self, Admission, App, Gateway, Settings, ToLink};
use wikala_doors::obligations::asked;
use wikala_witness::{AgentId, Delivery, Dialect, Fact, LinkId, Policy, Registration, RunId, Verdict, Words};

/// The first moment of every test, unix seconds.
pub const START: u64 = 1_790_000_000;

/// An open house on a free port.
pub struct TestHouse {
    pub app: App,
    pub url: String,
    clock: Arc<AtomicU64>,
    close: tokio::sync::watch::Sender<bool>,
    dir: tempfile::TempDir,
}

impl TestHouse {
    pub async fn open() -> Self {
        Self::with(Policy::default()).await
    }

    pub async fn with(policy: Policy) -> Self {
        Self::made(policy, |_| {}).await
    }

    /// With a comment on streams that were idle that long.
    pub async fn commenting(policy: Policy, keep_alive: Duration) -> Self {
        Self::made(policy, |settings| settings.keep_alive = keep_alive).await
    }

    /// With an admission list.
    pub async fn admitting(policy: Policy, admission: Admission) -> Self {
        Self::made(policy, |settings| settings.admission = admission).await
    }

    /// With a gateway that vouches for presenters.
    pub async fn behind(policy: Policy, gateway: Gateway) -> Self {
        Self::made(policy, |settings| settings.gateway = Some(gateway)).await
    }

    /// With settings of its own.
    pub async fn made(policy: Policy, change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let clock = Arc::new(AtomicU64::new(START));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let mut settings = Settings {
            public_url: url.clone(),
            policy,
            admission: Admission::Open,
            keep_alive: Duration::from_secs(15),
            ping: Duration::from_secs(20),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            // Nobody waits here for an agent that a test plays by hand.
            stop_time: Duration::ZERO,
            gateway: None,
            behind_proxy: false,
        };
        change(&mut settings);
        let key = Arc::new(SigningKey::from_seed([0xB6; 32]));
        let opened =
            house::open(&dir.path().join("wikala.db"), key, settings, Clock::Hand(clock.clone())).expect("a record");
        tokio::spawn(wikala_doors::http::serve(
            opened.app.clone(),
            listener,
            opened.close.subscribe(),
            Duration::from_secs(2),
        ));
        TestHouse { app: opened.app, url, clock, close: opened.close, dir }
    }

    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// The file the record is in.
    pub fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("wikala.db")
    }

    /// Says that the house closes.
    pub fn close(&self) {
        let _ = self.close.send(true);
    }

    /// Moves the clock; nobody looks at it yet.
    pub fn set_clock(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Moves the clock and looks at every deadline.
    pub async fn advance(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
        self.app.desk.tick().await.expect("a tick");
    }
}

impl Drop for TestHouse {
    fn drop(&mut self) {
        let _ = self.close.send(true);
    }
}

/// A provider attached at the desk, speaking AG-UI events by hand.
pub struct Puppet {
    pub agent: AgentId,
    pub link: LinkId,
    app: App,
    told: mpsc::Receiver<ToLink>,
}

impl Puppet {
    pub async fn attach(house: &TestHouse, key: &SigningKey, name: &str) -> Self {
        let provider = key.public();
        let link = house.app.desk.ask(move |w, now| w.attach(now, provider, None)).await.expect("attached");
        let told = house.app.links.open(link);
        let name = AgentName::new(name).expect("a name");
        let roster = [Registration {
            name: name.clone(),
            interjections: false,
            text: format!("{{\"name\":\"{}\"}}", name.as_str()),
        }];
        house.app.desk.ask(move |w, now| w.register(now, link, &roster, None)).await.expect("registered");
        Puppet { agent: AgentId { provider, name }, link, app: house.app.clone(), told }
    }

    /// Waits for the next offer and takes it.
    pub async fn take(&mut self) -> Delivery {
        loop {
            match self.told.recv().await.expect("the link is open") {
                ToLink::Offer(delivery) => {
                    let (link, run) = (self.link, delivery.run.clone());
                    let taken = self.app.desk.ask(move |w, now| w.verdict(now, link, &run, Verdict::Accepted)).await;
                    assert!(taken.expect("a verdict"), "the offer stood");
                    return *delivery;
                }
                ToLink::AskToStop(_) => {}
                ToLink::Close(why) => panic!("closed: {why}"),
            }
        }
    }

    /// Nothing was said to it that it has not taken.
    pub fn was_told_nothing(&mut self) -> bool {
        self.told.try_recv().is_err()
    }

    /// Waits until it is asked to stop a run.
    pub async fn asked_to_stop(&mut self) -> RunId {
        loop {
            if let ToLink::AskToStop(run) = self.told.recv().await.expect("the link is open") {
                return run;
            }
        }
    }

    /// One event: the fact and its words as a provider sends them.
    pub async fn say(&self, run: &RunId, fact: Fact, text: &str) {
        let words = Words { dialect: Dialect::AgUi, text: text.into() };
        asked::event(&self.app, self.link, run, fact, words, None).await.expect("heard");
    }

    pub async fn finish(&self, run: &RunId) {
        let (link, run) = (self.link, run.clone());
        self.app.desk.ask(move |w, now| w.finish(now, link, &run)).await.expect("finished");
    }
}

/// Waits until something is so.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
