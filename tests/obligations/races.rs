//! Two at once: one wins, the other is told, and nothing is half done.

use serde_json::json;

use super::{Scene, code};
use crate::a2a::{head, provider};

/// Each of the four is in every one of them.
const ROUNDS: u64 = 200;

#[tokio::test]
async fn expiry_accept_response_and_cancel_have_one_winner_each_time() {
    let scene = Scene::open().await;
    let (mut won, mut closed) = ([0; 4], 0);
    for round in 0..ROUNDS {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(scene.now() + 1);
        let deadline = humantime::format_rfc3339_seconds(at).to_string();
        let owed = scene.owed_apart(&format!("m{round}"), json!({ "deadline_at": deadline })).await;
        scene.house.set_clock(1);
        let (requester, responsible, nothing) = (head(), provider(), json!({}));
        let (expired, accepted, responded, canceled) = tokio::join!(
            scene.reconcile(&requester),
            scene.accept(&responsible, &owed.id, 1),
            scene.respond(&responsible, &owed, &nothing),
            scene.cancel(&requester, &owed.id, 1),
        );
        let wins = [expired["expired"] == json!([owed.id]), accepted.0 == 200, responded.0 == 200, canceled.0 == 200];
        // Accept may come before one of the others; of those that end it exactly one.
        let ends = [wins[0], wins[2], wins[3]].iter().filter(|won| **won).count();
        assert_eq!(ends, 1, "{expired} {accepted:?} {responded:?} {canceled:?}");
        for (answer, won) in [(&accepted, wins[1]), (&responded, wins[2]), (&canceled, wins[3])] {
            assert!(
                won || ["409 obligation-terminal", "409 revision-conflict"].contains(&code(answer).as_str()),
                "{answer:?}"
            );
        }
        let view = scene.view(&owed.id).await;
        let moves = view["history"].as_array().expect("a list").len() as u64;
        assert_eq!((view["revision"].as_u64(), moves), (Some(moves), 2 + u64::from(wins[1])));
        for (count, won) in won.iter_mut().zip(wins) {
            *count += u64::from(won);
        }
        closed += ends as u64;
    }
    assert_eq!((closed, scene.rows("obligation")), (ROUNDS, ROUNDS));
    println!("expiry {}, accept {}, response {}, cancel {}", won[0], won[1], won[2], won[3]);
}
