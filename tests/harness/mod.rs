//! A record in a temporary file, with a clock set by hand and a cast of fixed keys.
//! No sockets: what a link would carry is read from the effects.
#![allow(dead_code)] // each module of the tests uses its own part

use std::path::PathBuf;
use std::sync::Arc;

use wikala_certs::{Moment, Proof, SignedAct, SignedCertificate, SignedPresenter};
use wikala_chain::{AgentName, Digest, PublicKey, SigningKey, VerifiedChain};
use wikala_witness::{
    AgentId, Answer, Answered, Caller, Consented, Delivery, Dialect, Effect, Fact, Fault, Heard, Lane, Lineage, LinkId,
    No, Opened, Place, Policy, Presenting, Question, Reader, Recorded, Refusal, Registration, Reply, RunId, RunView,
    Status, Stop, Stopped, ThreadId, Utterance, Verdict, Witness, Words,
};

/// The first moment of every test, unix seconds.
pub const START: u64 = 1_790_000_000;

/// The head: the person behind everything.
pub fn head() -> SigningKey {
    SigningKey::from_seed([0x01; 32])
}
/// A provider.
pub fn a() -> SigningKey {
    SigningKey::from_seed([0x0A; 32])
}
/// Another provider.
pub fn b() -> SigningKey {
    SigningKey::from_seed([0x0B; 32])
}
/// A third provider.
pub fn c() -> SigningKey {
    SigningKey::from_seed([0x0C; 32])
}
/// A stranger.
pub fn stranger() -> SigningKey {
    SigningKey::from_seed([0x5E; 32])
}
/// A session key.
pub fn session() -> SigningKey {
    SigningKey::from_seed([0x55; 32])
}
/// The witness.
pub fn witness() -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed([0xB6; 32]))
}

/// The agent a provider serves in these tests.
pub fn agent(provider: &SigningKey) -> AgentId {
    AgentId { provider: provider.public(), name: AgentName::new("echo").expect("a name") }
}

/// A chain signed by these keys in order.
pub fn chain(signers: &[SigningKey]) -> VerifiedChain {
    let (first, rest) = signers.split_first().expect("somebody signs");
    rest.iter().fold(VerifiedChain::start(first), |chain, key| chain.extend(key).expect("a longer chain"))
}

/// The chain a provider was handed.
pub fn delivered(delivery: &Delivery) -> VerifiedChain {
    let text = delivery.chain.as_deref().expect("a chain was delivered");
    let chain = wikala_chain::Chain::parse_json(text).expect("a chain").expect("not null");
    chain.verify(&wikala_chain::PrefixCache::disabled()).expect("it verifies")
}

pub fn words(text: &str) -> Words {
    Words { dialect: Dialect::Plain, text: text.into() }
}

pub fn asking(ids: &[&str]) -> Fact {
    let questions = ids
        .iter()
        .map(|id| Question {
            id: Some((*id).to_owned()),
            call: None,
            text: format!("{{\"id\":\"{id}\"}}"),
            owing: None,
        })
        .collect();
    Fact::Ended { questions, pending: None, cancelled: false }
}

pub fn done() -> Fact {
    Fact::Ended { questions: vec![], pending: None, cancelled: false }
}

/// A certificate with its delegate's consent in it.
pub fn accepted(authority: &SigningKey, delegate: &SigningKey, expires_at: u64) -> Consented {
    let certificate = SignedCertificate::issue(authority, &delegate.public(), expires_at);
    Consented { certificate: certificate.accept(delegate).expect("its own delegate"), by_request: false }
}

/// A certificate its delegate never heard of.
pub fn unaccepted(authority: &SigningKey, delegate: &SigningKey, expires_at: u64) -> Consented {
    Consented { certificate: SignedCertificate::issue(authority, &delegate.public(), expires_at), by_request: false }
}

/// The code of a refusal.
#[track_caller]
pub fn code<T: std::fmt::Debug>(said: Result<T, Refusal>) -> &'static str {
    said.expect_err("a refusal was expected").code.as_str()
}

pub fn resolve(key: &SigningKey, run: &RunId, at: Moment) -> SignedAct<wikala_certs::Resolve> {
    SignedAct::resolve(&Proof::resolve(key, run.as_str(), at), run.as_str()).expect("just signed")
}

pub fn cancel(key: &SigningKey, run: &RunId, at: Moment) -> SignedAct<wikala_certs::Cancel> {
    SignedAct::cancel(&Proof::cancel(key, run.as_str(), at), run.as_str()).expect("just signed")
}

/// One witness, its file, its clock, and everything it asked to be done.
pub struct World {
    pub path: PathBuf,
    pub now: u64,
    pub effects: Vec<Effect>,
    witness: Option<Witness>,
    /// The operator's eyes, kept open: it looks past the read policy.
    eyes: Option<Reader>,
    policy: Policy,
    seed: u64,
    nonces: u64,
    _dir: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self::with(Policy::default())
    }

    pub fn with(policy: Policy) -> Self {
        // In memory where that is to be had: these tests commit thousands of times.
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("a temporary directory");
        let path = dir.path().join("wikala.db");
        let mut world = World {
            path,
            now: START,
            effects: vec![],
            witness: None,
            eyes: None,
            policy,
            seed: 7,
            nonces: 0,
            _dir: dir,
        };
        world.witness = Some(world.second());
        world.eyes = Some(Witness::reader(&world.path, Policy::default()).expect("a reader"));
        world
    }

    /// Another witness on the same file.
    pub fn second(&mut self) -> Witness {
        self.seed += 1;
        Witness::open_seeded(&self.path, witness(), self.policy.clone(), self.seed).expect("a record")
    }

    pub fn at(&self) -> Moment {
        Moment::from_secs(self.now)
    }

    pub fn witness(&mut self) -> &mut Witness {
        self.witness.as_mut().expect("open")
    }

    pub fn reader(&self) -> Reader {
        Witness::reader(&self.path, self.policy.clone()).expect("a reader")
    }

    /// One verb in its transaction, effects collected.
    pub fn run<T>(&mut self, verb: impl FnOnce(&mut Witness, Moment) -> Result<T, No>) -> Result<T, Refusal> {
        let now = self.at();
        match self.witness().transact(|w| verb(w, now)) {
            Ok((done, effects)) => {
                self.effects.extend(effects);
                Ok(done)
            }
            Err(No::Refusal(refusal)) => Err(*refusal),
            Err(No::Fault(fault)) => panic!("{}", told(&fault)),
        }
    }

    /// The process dies and another takes over its file.
    pub fn crash(&mut self) {
        self.witness = None;
        let again = self.second();
        self.witness = Some(again);
        self.run(|w, now| w.recover(now)).expect("recovered");
    }

    pub fn advance(&mut self, seconds: u64) {
        self.now += seconds;
        self.tick();
    }

    pub fn tick(&mut self) {
        self.run(|w, now| w.tick(now)).expect("a tick");
    }

    // What providers do.

    pub fn serve(&mut self, provider: &SigningKey) -> LinkId {
        self.serve_with(provider, None, false)
    }

    pub fn serve_with(&mut self, provider: &SigningKey, capacity: Option<u64>, interjections: bool) -> LinkId {
        let key = provider.public();
        let roster = [Registration { name: agent(provider).name, interjections, text: "{}".into() }];
        let link = self.run(|w, now| w.attach(now, key, capacity)).expect("attached");
        self.run(|w, now| w.register(now, link, &roster, None)).expect("registered");
        link
    }

    /// The offers made since they were last taken from the effects.
    pub fn offers(&mut self) -> Vec<(LinkId, Delivery)> {
        let mut offers = vec![];
        self.effects.retain(|effect| match effect {
            Effect::Offer { link, delivery } => {
                offers.push((*link, (**delivery).clone()));
                false
            }
            _ => true,
        });
        offers
    }

    pub fn verdict(&mut self, link: LinkId, run: &RunId, verdict: Verdict) -> bool {
        self.run(|w, now| w.verdict(now, link, run, verdict)).expect("only faults")
    }

    /// Takes the only offer that is out.
    #[track_caller]
    pub fn take(&mut self) -> Delivery {
        let mut offers = self.offers();
        assert_eq!(offers.len(), 1, "one offer is out");
        let (link, delivery) = offers.remove(0);
        assert!(self.verdict(link, &delivery.run, Verdict::Accepted), "the offer stands");
        delivery
    }

    pub fn event(&mut self, link: LinkId, run: &RunId, fact: Fact, seq: Option<u64>) -> Result<Heard, Refusal> {
        self.run(|w, now| w.event(now, link, run, fact, words("{}"), seq))
    }

    pub fn finish(&mut self, link: LinkId, run: &RunId) -> Result<(), Refusal> {
        self.run(|w, now| w.finish(now, link, run))
    }

    /// The provider stops and asks, and lets go of the run.
    #[track_caller]
    pub fn pause(&mut self, link: LinkId, run: &RunId, ids: &[&str]) {
        self.event(link, run, Fact::Started, None).expect("started");
        self.event(link, run, asking(ids), None).expect("asked");
        self.finish(link, run).expect("finished");
    }

    #[track_caller]
    pub fn complete(&mut self, link: LinkId, run: &RunId) {
        self.event(link, run, done(), None).expect("done");
        self.finish(link, run).expect("finished");
    }

    // What callers do.

    fn nonce(&mut self) -> String {
        self.nonces += 1;
        format!("{:032x}", self.nonces)
    }

    /// A presenter proof for this agent and tip, signed now.
    pub fn presenter(&mut self, key: &SigningKey, to: &AgentId, tip: Option<Digest>) -> SignedPresenter {
        let proof = self.presenter_proof(key, to, tip);
        let w = witness().public();
        SignedPresenter::verify(&proof, &w, &to.provider, &to.name, tip).expect("just signed")
    }

    pub fn presenter_proof(&mut self, key: &SigningKey, to: &AgentId, tip: Option<Digest>) -> Proof {
        let nonce = self.nonce();
        Proof::present(key, &witness().public(), &to.provider, &to.name, tip, &nonce, self.at())
    }

    /// A caller with this chain, presented by the key of its last hop.
    pub fn carrying(&mut self, chain: VerifiedChain, presenter: &SigningKey, to: &AgentId) -> Caller {
        let proof = self.presenter(presenter, to, Some(chain.tip()));
        Caller { chain: Some(chain), certificate: None, presenter: Presenting::Signed(proof) }
    }

    /// A caller without a chain who signs.
    pub fn signing(&mut self, key: &SigningKey, to: &AgentId) -> Caller {
        let proof = self.presenter(key, to, None);
        Caller { chain: None, certificate: None, presenter: Presenting::Signed(proof) }
    }

    pub fn speak(&mut self, to: &AgentId, place: Place, caller: Caller) -> Result<Opened, Refusal> {
        let said = utterance(to, place, caller);
        self.run(|w, now| w.speak(now, said))
    }

    /// The head opens a run on a new thread, by a chain of its own.
    #[track_caller]
    pub fn open(&mut self, provider: &SigningKey) -> Opened {
        let to = agent(provider);
        let caller = self.carrying(chain(&[head()]), &head(), &to);
        self.speak(&to, Place::New, caller).expect("opened")
    }

    /// A run of the head at a provider that serves it, paused on these ids.
    #[track_caller]
    pub fn waiting(&mut self, ids: &[&str]) -> (LinkId, Opened) {
        let link = self.serve(&a());
        let opened = self.open(&a());
        self.take();
        self.pause(link, &opened.run, ids);
        (link, opened)
    }

    pub fn answer_with(&mut self, answer: Answer) -> Result<Answered, Refusal> {
        self.run(|w, now| w.answer(now, answer))
    }

    /// A single answer under an act.
    pub fn answer(
        &mut self,
        run: &RunId,
        text: &str,
        act: Option<SignedAct<wikala_certs::Resolve>>,
    ) -> Result<Answered, Refusal> {
        self.answer_with(single(run, text, act))
    }

    /// The same, signed now by this key.
    pub fn answer_by(&mut self, run: &RunId, text: &str, key: &SigningKey) -> Result<Answered, Refusal> {
        let act = resolve(key, run, self.at());
        self.answer(run, text, Some(act))
    }

    pub fn stop(&mut self, run: &RunId, act: Option<SignedAct<wikala_certs::Cancel>>) -> Result<Stopped, Refusal> {
        let stop = Stop { agent: None, run: run.clone(), act, certificate: None };
        self.run(|w, now| w.stop(now, stop))
    }

    pub fn stop_by(&mut self, run: &RunId, key: &SigningKey) -> Result<Stopped, Refusal> {
        let act = cancel(key, run, self.at());
        self.stop(run, Some(act))
    }

    // What is on record.

    fn eyes(&self) -> &Reader {
        self.eyes.as_ref().expect("open")
    }

    pub fn view(&self, run: &RunId) -> RunView {
        self.eyes().run_for_operator(run).expect("on record")
    }

    pub fn status(&self, run: &RunId) -> Status {
        self.view(run).status
    }

    pub fn entries(&self, run: &RunId) -> Vec<Recorded> {
        self.eyes().entries(run, 0, 10_000, None).expect("on record")
    }

    pub fn thread_head(&self, thread: &ThreadId) -> Option<PublicKey> {
        self.eyes().thread(thread, None).expect("on record").head
    }
}

pub fn utterance(to: &AgentId, place: Place, caller: Caller) -> Utterance {
    Utterance {
        agent: to.clone(),
        place,
        caller,
        words: words("\"hello\""),
        extensions: Vec::new(),
        lineage: Lineage::default(),
        vouchers: None,
        addressed: None,
        client_run: None,
        owing: None,
    }
}

pub fn single(run: &RunId, text: &str, act: Option<SignedAct<wikala_certs::Resolve>>) -> Answer {
    Answer {
        agent: None,
        run: run.clone(),
        lane: Lane::Direct,
        reply: Reply { items: vec![], single: Some(text.to_owned()) },
        digest: Digest::of(text.as_bytes()),
        act,
        certificate: None,
        caller: Caller::default(),
        words: words(text),
        extensions: Vec::new(),
    }
}

fn told(fault: &Fault) -> String {
    format!("a fault: {fault}")
}
