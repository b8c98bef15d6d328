//! Membership gives the right to demand, answer, move and withdraw; the operator's list takes it.

use serde_json::json;
use wikala_witness::Policy;
use wikala_witness::obligation::Denied;

use super::{Scene, code, plain};
use crate::a2a::{head, provider};
use crate::house::TestHouse;

#[tokio::test]
async fn what_the_operator_denies_is_refused_and_nothing_moves() {
    let scene = Scene::of(TestHouse::with(Policy::default()).await).await;
    let owed = scene.owed("m1", plain()).await;
    let deny = async |line: String| {
        let list = vec![Denied::parse(&line).expect("a line")];
        scene
            .house
            .app
            .desk
            .ask(move |witness, _| {
                witness.set_denied(list);
                Ok(())
            })
            .await
            .expect("set");
    };
    let (h, p, thread) = (head().public(), provider().public(), scene.thread.clone());
    deny(format!("deny obligation.create {h} {thread}")).await;
    assert_eq!(code(&scene.ask(&scene.demand("m2", &plain())).await), "403 entitlement-denied");
    assert_eq!(scene.rows("obligation"), 1);
    deny(format!("deny obligation.update {p}")).await;
    assert_eq!(code(&scene.accept(&provider(), &owed.id, 1).await), "403 entitlement-denied");
    assert_eq!(code(&scene.decline(&provider(), &owed.id, 1, "no").await), "403 entitlement-denied");
    deny(format!("deny obligation.respond {p}")).await;
    assert_eq!(code(&scene.respond(&provider(), &owed, &json!({})).await), "403 entitlement-denied");
    deny(format!("deny obligation.cancel * {thread}")).await;
    assert_eq!(code(&scene.cancel(&head(), &owed.id, 1).await), "403 entitlement-denied");
    assert_eq!(scene.stands(&owed.id).await, ("created".into(), 1));
    // Another key, another thread, another right: untouched.
    let elsewhere = scene.new_thread().await;
    deny(format!("deny obligation.update * {elsewhere}")).await;
    assert_eq!(code(&scene.accept(&provider(), &owed.id, 7).await), "409 revision-conflict");
    deny(format!("deny obligation.cancel {p}")).await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    assert_eq!(scene.cancel(&head(), &owed.id, 2).await.0, 200);
}
