//! Races with a stall between the check off the desk and the desk itself: both requests
//! have been read, verified and found in order before either is decided. One wins, and
//! the other is told so.

use std::sync::mpsc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use wikala_certs::{Moment, Proof};
use wikala_chain::SigningKey;
use wikala_doors::client::Client;
use wikala_witness::{
    Caller, Dialect, Fact, Holding, Lineage, LinkId, Place, Presenting, Question, RunId, RunView, Status, Utterance,
    Verdict, Words,
};

use crate::house::{Puppet, TestHouse};

const ROUNDS: usize = 200;

/// The desk stands still until this is dropped.
struct Stall {
    release: Option<mpsc::Sender<()>>,
    stalled: JoinHandle<()>,
}

impl Stall {
    async fn of(house: &TestHouse) -> Stall {
        let (release, released) = mpsc::channel::<()>();
        let (standing, stands) = tokio::sync::oneshot::channel();
        let desk = house.app.desk.clone();
        let stalled = tokio::spawn(async move {
            let job = desk.ask(move |_, _| {
                let _ = standing.send(());
                // Ends when the other side is dropped.
                let _ = released.recv();
                Ok(())
            });
            job.await.expect("only faults");
        });
        stands.await.expect("the desk stands");
        Stall { release: Some(release), stalled }
    }

    /// Waits until so many jobs stand before the desk, then lets it go on.
    async fn until(mut self, house: &TestHouse, waiting: usize) {
        while house.app.desk.waiting() < waiting {
            tokio::task::yield_now().await;
        }
        self.release.take();
        self.stalled.await.expect("no panic");
    }
}

struct Scene {
    house: TestHouse,
    puppet: Puppet,
    head: SigningKey,
    provider: SigningKey,
    now: u64,
}

impl Scene {
    async fn open() -> Scene {
        let house = TestHouse::open().await;
        let provider = SigningKey::from_seed([3; 32]);
        let puppet = Puppet::attach(&house, &provider, "a").await;
        let now = house.now();
        Scene { house, puppet, head: SigningKey::from_seed([1; 32]), provider, now }
    }

    /// A run under the head's chain, taken.
    async fn running(&mut self) -> RunId {
        // Each round its own second: acts are spent by their bytes.
        self.house.advance(1).await;
        self.now += 1;
        let run = self.spoken().await;
        assert_eq!(self.puppet.take().await.run, run);
        run
    }

    async fn spoken(&self) -> RunId {
        let chain = wikala_chain::VerifiedChain::start(&self.head);
        let caller =
            Caller { chain: Some(chain), certificate: None, presenter: Presenting::Vouched(self.head.public()) };
        let said = Utterance {
            agent: self.puppet.agent.clone(),
            place: Place::New,
            caller,
            words: Words { dialect: Dialect::Plain, text: "\"hi\"".into() },
            extensions: Vec::new(),
            lineage: Lineage::default(),
            vouchers: None,
            addressed: None,
            client_run: None,
            owing: None,
        };
        self.house.app.desk.ask(move |w, now| w.speak(now, said)).await.expect("spoken").run
    }

    async fn waiting(&mut self) -> RunId {
        let run = self.running().await;
        let question = Question { id: Some("q".into()), call: None, text: "{\"id\":\"q\"}".into(), owing: None };
        let asks = Fact::Ended { questions: vec![question], pending: None, cancelled: false };
        self.puppet.say(&run, asks, "{}").await;
        self.puppet.finish(&run).await;
        run
    }

    /// By A2A: a message that names the waiting task.
    fn message(&self, run: &RunId, key: &SigningKey, text: &str) -> JoinHandle<Result<(), String>> {
        let url = format!("{}/a2a/{}/a", self.house.url, self.provider.public());
        let proof = value(&Proof::resolve(key, run.as_str(), Moment::from_secs(self.now)));
        let params = json!({
            "message": { "messageId": "m", "role": "ROLE_USER", "taskId": run.as_str(), "parts": [{ "text": text }] },
            "metadata": { "resolution": proof }, "configuration": { "returnImmediately": true },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        tokio::spawn(async move {
            let (_, answer) = Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer");
            match answer["error"]["data"].as_array().and_then(|data| data.iter().find_map(ours)) {
                Some(code) => Err(code),
                None => Ok(()),
            }
        })
    }

    /// On our own routes.
    fn post(&self, run: &RunId, what: &str, body: Value) -> JoinHandle<Result<(), String>> {
        let url = format!("{}/v1/runs/{run}/{what}", self.house.url);
        tokio::spawn(async move {
            let (_, answer) = Client::new().post_json(&url, &body, &[]).await.expect("an answer");
            answer["error"]["code"].as_str().map_or(Ok(()), |code| Err(code.to_owned()))
        })
    }

    fn answer(&self, run: &RunId, key: &SigningKey, text: &str) -> JoinHandle<Result<(), String>> {
        let proof = value(&Proof::resolve(key, run.as_str(), Moment::from_secs(self.now)));
        self.post(run, "answer", json!({ "answer": text, "resolution": proof }))
    }

    fn cancel(&self, run: &RunId, key: &SigningKey) -> JoinHandle<Result<(), String>> {
        let proof = value(&Proof::cancel(key, run.as_str(), Moment::from_secs(self.now)));
        self.post(run, "cancel", json!({ "cancel": proof }))
    }

    async fn view(&self, run: &RunId) -> RunView {
        let run = run.clone();
        self.house.app.readers.read(move |reader| reader.run_for_operator(&run)).await.expect("a run")
    }

    /// The round is over: whatever stands is let go.
    async fn clear(&mut self, run: &RunId) {
        let status = self.view(run).await.status;
        if status == Status::Offering {
            self.puppet.take().await;
        }
        if !status.is_terminal() {
            self.puppet.say(run, done(), "{}").await;
        }
        let (link, run) = (self.puppet.link, run.clone());
        // What waited and was cancelled is nobody's to finish.
        let _ = self.house.app.desk.ask(move |w, now| w.finish(now, link, &run)).await;
    }
}

fn ours(info: &Value) -> Option<String> {
    info["metadata"]["code"].as_str().map(str::to_owned)
}

fn value(proof: &Proof) -> Value {
    serde_json::from_str(&proof.to_json()).expect("JSON")
}

fn done() -> Fact {
    Fact::Ended { questions: vec![], pending: None, cancelled: false }
}

#[tokio::test]
async fn two_answers_checked_before_either_counts_have_one_winner() {
    let mut scene = Scene::open().await;
    let mut wins = [0, 0];
    for round in 0..ROUNDS {
        let run = scene.waiting().await;
        let stall = Stall::of(&scene.house).await;
        let (head, provider) = (&scene.head, &scene.provider);
        let (mine, theirs) = match round % 2 {
            0 => (scene.message(&run, head, "yes"), scene.answer(&run, provider, "no")),
            _ => (scene.answer(&run, head, "yes"), scene.message(&run, provider, "no")),
        };
        stall.until(&scene.house, 2).await;
        let told = (mine.await.expect("no panic"), theirs.await.expect("no panic"));
        let winner = match &told {
            (Ok(()), Err(code)) if code == "already-answered" => 0,
            (Err(code), Ok(())) if code == "already-answered" => 1,
            other => panic!("{other:?}"),
        };
        wins[winner] += 1;
        let by = [scene.head.public(), scene.provider.public()][winner];
        assert_eq!(scene.view(&run).await.asks[0].answered_by, Some(by));
        scene.clear(&run).await;
    }
    assert_eq!(wins[0] + wins[1], ROUNDS);
}

#[tokio::test]
async fn an_answer_and_a_cancel_checked_together_leave_one_story() {
    let mut scene = Scene::open().await;
    for _ in 0..ROUNDS {
        let run = scene.waiting().await;
        let stall = Stall::of(&scene.house).await;
        let (answer, cancel) = (scene.message(&run, &scene.head, "yes"), scene.cancel(&run, &scene.provider));
        stall.until(&scene.house, 2).await;
        let told = (answer.await.expect("no panic"), cancel.await.expect("no panic"));
        let view = scene.view(&run).await;
        match told {
            // Answered first: the cancel is for the round that follows.
            (Ok(()), Ok(())) => assert_eq!(view.asks[0].closed_as.as_deref(), Some("answered")),
            (Err(code), Ok(())) => {
                assert_eq!((code.as_str(), view.status), ("no-open-ask", Status::Cancelled));
                assert_eq!(view.asks[0].closed_as.as_deref(), Some("cancelled"));
            }
            other => panic!("{other:?}"),
        }
        scene.clear(&run).await;
    }
}

#[tokio::test]
async fn a_cancel_and_the_end_checked_together_leave_one_end() {
    let mut scene = Scene::open().await;
    for _ in 0..ROUNDS {
        let run = scene.running().await;
        let stall = Stall::of(&scene.house).await;
        let cancel = scene.cancel(&run, &scene.head);
        let (desk, link, id) = (scene.house.app.desk.clone(), scene.puppet.link, run.clone());
        let words = Words { dialect: Dialect::AgUi, text: "{}".into() };
        let end =
            tokio::spawn(async move { desk.ask(move |w, now| w.event(now, link, &id, done(), words, None)).await });
        stall.until(&scene.house, 2).await;
        let (cancel, end) = (cancel.await.expect("no panic"), end.await.expect("no panic"));
        end.expect("its own run");
        let view = scene.view(&run).await;
        match cancel {
            Ok(()) => assert_eq!(view.cancel_requested_by.len(), 1),
            Err(code) => assert_eq!((code.as_str(), view.cancel_requested_by.len()), ("run-ended", 0)),
        }
        assert_eq!(view.status, Status::Completed);
        scene.clear(&run).await;
    }
}

#[tokio::test]
async fn a_verdict_and_the_offers_end_checked_together_have_one_winner() {
    let mut scene = Scene::open().await;
    for _ in 0..ROUNDS {
        let run = scene.spoken().await;
        let stall = Stall::of(&scene.house).await;
        let (link, id) = (scene.puppet.link, run.clone());
        let (verdict, tick) = late(&scene, move |w, now| w.verdict(now, link, &id, Verdict::Accepted));
        stall.until(&scene.house, 2).await;
        let taken = verdict.await.expect("no panic").expect("only faults");
        tick.await.expect("no panic").expect("only faults");
        let status = scene.view(&run).await.status;
        assert_eq!(status == Status::Running, taken, "{status:?}");
        if !taken {
            // Silent: not this round's matter.
            scene.house.app.desk.ask(move |w, now| w.verdict(now, link, &run, Verdict::Declined)).await.expect("told");
            scene = Scene::open().await;
            continue;
        }
        scene.clear(&run).await;
    }
}

#[tokio::test]
async fn a_re_attach_and_the_leases_end_checked_together_have_one_winner() {
    let mut scene = Scene::open().await;
    for _ in 0..ROUNDS {
        let run = scene.running().await;
        let link = scene.puppet.link;
        scene.house.app.desk.ask(move |w, now| w.detach(now, link)).await.expect("a blip");
        scene.puppet = Puppet::attach(&scene.house, &scene.provider, "a").await;
        let stall = Stall::of(&scene.house).await;
        let (link, id): (LinkId, RunId) = (scene.puppet.link, run.clone());
        let held =
            move |w: &mut wikala_witness::Witness, _| w.holding(link, &[Holding { run: id.clone(), last_seq: 0 }]);
        let (held, tick) = late_by(&scene, 30, held);
        stall.until(&scene.house, 2).await;
        let resumed = held.await.expect("no panic").expect("only faults");
        tick.await.expect("no panic").expect("only faults");
        let view = scene.view(&run).await;
        match resumed.len() {
            1 => assert_eq!(view.status, Status::Running),
            _ => assert_eq!(view.reason.as_deref(), Some("provider_left_holding_it")),
        }
        // A strike withdraws at three: each round its own provider's record.
        scene = Scene::open().await;
    }
}

type Later<T> = JoinHandle<Result<T, wikala_witness::No>>;

/// A provider's word and the look at deadlines, both after the offer's time is over.
fn late<T: Send + 'static>(
    scene: &Scene,
    verb: impl FnOnce(&mut wikala_witness::Witness, Moment) -> Result<T, wikala_witness::No> + Send + 'static,
) -> (Later<T>, Later<()>) {
    late_by(scene, 5, verb)
}

fn late_by<T: Send + 'static>(
    scene: &Scene,
    seconds: u64,
    verb: impl FnOnce(&mut wikala_witness::Witness, Moment) -> Result<T, wikala_witness::No> + Send + 'static,
) -> (Later<T>, Later<()>) {
    scene.house.set_clock(seconds);
    let (one, two) = (scene.house.app.desk.clone(), scene.house.app.desk.clone());
    // Whoever the runtime wakes first arrives first.
    let verb = tokio::spawn(async move { one.ask(verb).await });
    let tick = tokio::spawn(async move { two.tick().await });
    (verb, tick)
}
