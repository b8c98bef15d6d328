//! A provider hands on what it owes: whose obligation the second one is follows from the chain.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_chain::{Chain, PrefixCache, SigningKey, VerifiedChain};

use super::{Scene, code, demand, plain, read};
use crate::a2a::{head, provider};
use crate::house::Puppet;

#[tokio::test]
async fn n57_an_extended_chain_stays_the_heads_and_a_broken_one_is_who_broke_it() {
    let mut scene = Scene::open().await;
    let deeper = SigningKey::from_seed([0x0D; 32]);
    let _other = Puppet::attach(&scene.house, &deeper, "deep").await;
    let one = scene.owed("m1", plain()).await;
    let sent = scene.puppet.take().await;
    let cache = PrefixCache::new(16);
    let delivered = Chain::parse_json(&sent.chain.expect("a chain")).unwrap().expect("hops").verify(&cache).unwrap();
    let extended = delivered.extend(&provider()).unwrap();
    let peers = async |key: &SigningKey| scene.inbox(key).await["awaiting_peer"].clone();
    assert_eq!((peers(&head()).await, peers(&provider()).await), (json!(1), json!(0)));
    let hand_on = async |id: &str, chain: &VerifiedChain| {
        let path = format!("/threads/{}/deep", deeper.public());
        let (_, made) = scene.send(Method::POST, &path, None, None).await;
        let thread = made["threadId"].as_str().expect("an id").to_owned();
        let mut said = demand(&thread, &provider(), id, &plain(), scene.now());
        said["metadata"]["actorChain"] = chain.tokens().collect::<Vec<_>>().into();
        let (status, told) = scene.act_in(&thread, &said).await;
        assert_eq!(status, 202, "{told}");
        read(&told)
    };
    let ids = async |key: &SigningKey| -> Vec<String> {
        let (_, list) = scene.get("/v1/response-obligations?role=requester", key).await;
        let list = list["obligations"].as_array().expect("a list").iter();
        list.map(|one| one["obligation_id"].as_str().expect("an id").to_owned()).collect()
    };

    let broken = hand_on("broken", &VerifiedChain::start(&provider())).await;
    assert_eq!((peers(&head()).await, peers(&provider()).await), (json!(1), json!(1)));
    assert_eq!((ids(&head()).await, ids(&provider()).await), (vec![one.id.clone()], vec![broken.id.clone()]));
    let unknown = scene.get("/v1/response-obligations/ob_00000000000000000000000000000000", &head()).await;
    let hidden: (u16, Value) = scene.get(&format!("/v1/response-obligations/{}", broken.id), &head()).await;
    assert_eq!(hidden, unknown);
    assert_eq!(code(&scene.cancel(&head(), &broken.id, 1).await), "404 obligation-unavailable");

    let second = hand_on("extended", &extended).await;
    assert_eq!((peers(&head()).await, peers(&provider()).await), (json!(2), json!(1)));
    let view = scene.view(&second.id).await;
    assert_eq!(
        (&view["requester"], &view["author"], &view["responsible"]),
        (&json!(head().public().to_hex()), &json!(provider().public().to_hex()), &json!(deeper.public().to_hex()))
    );
    // Who wrote it down has no rights of its own.
    assert_eq!(code(&scene.cancel(&provider(), &second.id, 1).await), "404 obligation-unavailable");
    assert_eq!(scene.cancel(&head(), &second.id, 1).await.1["state"], "canceled");
    assert_eq!(scene.cancel(&provider(), &broken.id, 1).await.1["state"], "canceled");
}
