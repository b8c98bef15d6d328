//! The shortest journey at the desk: speak, take, pause, answer, end.

use wikala_certs::SignedPresenter;
use wikala_certs::{Moment, Proof, SignedAct};
use wikala_chain::{Digest, SigningKey, VerifiedChain};
use wikala_witness::{
    Answer, Caller, Dialect, Fact, Lane, Lineage, Place, Presenting, Question, Reply, Status, Utterance, Words,
};

use crate::house::{Puppet, TestHouse};

#[tokio::test]
async fn a_bound_run_pauses_is_answered_by_its_head_and_completes() {
    let house = TestHouse::open().await;
    let provider = SigningKey::from_seed([3; 32]);
    let head = SigningKey::from_seed([1; 32]);
    let mut puppet = Puppet::attach(&house, &provider, "echo").await;

    let chain = VerifiedChain::start(&head);
    let now = Moment::from_secs(house.now());
    let witness = house.app.public_key();
    let nonce = "00".repeat(16);
    let proof = Proof::present(&head, &witness, &provider.public(), &puppet.agent.name, Some(chain.tip()), &nonce, now);
    let signed =
        SignedPresenter::verify(&proof, &witness, &provider.public(), &puppet.agent.name, Some(chain.tip())).unwrap();
    let said = Utterance {
        agent: puppet.agent.clone(),
        place: Place::New,
        caller: Caller { chain: Some(chain), certificate: None, presenter: Presenting::Signed(signed) },
        words: Words { dialect: Dialect::A2a, text: "{}".into() },
        extensions: Vec::new(),
        lineage: Lineage::default(),
        vouchers: None,
        addressed: None,
        client_run: None,
        owing: None,
    };
    let opened = house.app.desk.ask(move |w, now| w.speak(now, said)).await.unwrap();
    let delivery = puppet.take().await;
    assert_eq!(delivery.run, opened.run);
    let run = opened.run.clone();
    puppet.say(&run, Fact::Started, "{\"type\":\"RUN_STARTED\"}").await;
    let question = Question { id: Some("q1".into()), call: None, text: "{\"id\":\"q1\"}".into(), owing: None };
    puppet.say(&run, Fact::Ended { questions: vec![question], pending: None, cancelled: false }, "{}").await;
    puppet.finish(&run).await;

    let act = SignedAct::resolve(&Proof::resolve(&head, run.as_str(), now), run.as_str()).unwrap();
    let answer = Answer {
        agent: None,
        run: run.clone(),
        lane: Lane::Direct,
        reply: Reply { items: vec![], single: Some("\"yes\"".into()) },
        digest: Digest::of(b"yes"),
        act: Some(act),
        certificate: None,
        caller: Caller::default(),
        words: Words { dialect: Dialect::Plain, text: "\"yes\"".into() },
        extensions: Vec::new(),
    };
    let answered = house.app.desk.ask(move |w, now| w.answer(now, answer)).await.unwrap();
    assert!(!answered.replayed);
    let delivery = puppet.take().await;
    assert_eq!(delivery.leg.ordinal, 1);
    assert_eq!(delivery.leg.reply.unwrap()[0].payload.as_deref(), Some("\"yes\""));
    puppet.say(&run, Fact::Started, "{}").await;
    puppet.say(&run, Fact::Ended { questions: vec![], pending: None, cancelled: false }, "{}").await;
    puppet.finish(&run).await;
    let id = run.clone();
    let view = house.app.readers.read(move |r| r.run(&id, None)).await.unwrap();
    assert_eq!(view.status, Status::Completed);
    assert_eq!(view.asks[0].answered_by, Some(head.public()));
    assert_eq!(view.onward.unwrap().under_chain, 0);
    let body = reqwest_free_get(&format!("{}/v1/runs/{run}", house.url)).await;
    assert!(body.contains("\"status\":\"completed\""), "{body}");
}

async fn reqwest_free_get(url: &str) -> String {
    use http_body_util::BodyExt;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http::<http_body_util::Empty<bytes::Bytes>>();
    let response = client.get(url.parse().unwrap()).await.unwrap();
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
