//! The same bytes a second time.

use wikala_certs::{Moment, Proof, SignedAct, SignedPresenter};
use wikala_chain::{AgentName, SigningKey};
use wikala_witness::{AgentId, Caller, Consented, ItemKind, Place, Presenting, Reply, ReplyItem, RunId, Status};

use crate::harness::*;

#[test]
fn one_resolve_answers_one_pause_and_never_the_next() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    let signed = world.at();
    let act = || Some(resolve(&head(), &opened.run, signed));
    world.answer(&opened.run, "\"yes\"", act()).expect("won");
    world.take();
    world.pause(link, &opened.run, &["q2"]);

    assert_eq!(code(world.answer(&opened.run, "\"no\"", act())), "act-spent");
    // A retry of the very first request gets its stored result and opens nothing.
    let again = world.answer(&opened.run, "\"yes\"", act()).expect("the stored result");
    assert!(again.replayed);
    assert_eq!(world.status(&opened.run), Status::InputRequired);

    // The same act and answer text, but naming the new ask, is another request.
    let item = ReplyItem { id: "q2".into(), kind: ItemKind::Interrupt, abandoned: false, payload: Some("1".into()) };
    let mut answer = single(&opened.run, "\"yes\"", act());
    answer.reply = Reply { items: vec![item], single: None };
    assert_eq!(code(world.answer_with(answer)), "act-spent");
    assert_eq!(world.status(&opened.run), Status::InputRequired);

    world.now += 1;
    world.answer_by(&opened.run, "\"yes\"", &head()).expect("signed again one second later");
}

#[test]
fn the_stored_result_is_given_after_the_window_too() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    let signed = world.at();
    let first = world.answer(&opened.run, "\"yes\"", Some(resolve(&head(), &opened.run, signed))).expect("won");
    world.now += 3600;
    let again = world.answer(&opened.run, "\"yes\"", Some(resolve(&head(), &opened.run, signed))).expect("stored");
    assert!(again.replayed && again.after == first.after);
    let other = world.answer(&opened.run, "\"no\"", Some(resolve(&head(), &opened.run, signed)));
    let refusal = other.expect_err("these bytes closed the ask with another answer");
    assert_eq!(refusal.code.as_str(), "already-answered");
    assert_eq!(refusal.winner().expect("who").authority, Some(head().public()));
}

/// The head's session key answers before it is on record; recorded in between, it
/// counts as its authority, and its old act is as spent as before.
#[test]
fn an_act_stays_spent_when_its_signer_becomes_a_delegate() {
    let mut world = World::new();
    let link = world.serve(&a());
    let to = agent(&a());
    let caller = world.carrying(chain(&[session()]), &session(), &to);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    world.take();
    world.pause(link, &opened.run, &["q1"]);
    let signed = world.at();
    world.answer(&opened.run, "1", Some(resolve(&session(), &opened.run, signed))).expect("won");
    world.take();
    world.pause(link, &opened.run, &["q2"]);
    let pair = accepted(&head(), &session(), START + 3600);
    world.run(|w, now| w.record_certificate(now, &pair)).expect("recorded");
    let again = world.answer(&opened.run, "1", Some(resolve(&session(), &opened.run, signed)));
    assert!(again.expect("the very first request has its stored result").replayed);
    assert_eq!(code(world.answer(&opened.run, "2", Some(resolve(&session(), &opened.run, signed)))), "act-spent");
    assert_eq!(
        code(world.answer(&opened.run, "2", Some(resolve(&stranger(), &opened.run, signed)))),
        "not-an-authority"
    );
    // Signed by the authority's own key they are another act: it never signed the first.
    world.answer(&opened.run, "2", Some(resolve(&head(), &opened.run, signed))).expect("another signer");
}

#[test]
fn a_cancel_stops_one_round_and_never_the_next() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    let signed = world.at();
    let first = world.stop(&opened.run, Some(cancel(&head(), &opened.run, signed))).expect("asked");
    assert_eq!((first.status, first.replayed), (Status::Cancelling, false));
    let again = world.stop(&opened.run, Some(cancel(&head(), &opened.run, signed))).expect("the same round");
    assert!(again.replayed);
    assert_eq!(world.view(&opened.run).cancel_requested_by.len(), 1);
    // The provider asks instead of stopping, and is answered: another round.
    world.pause(link, &opened.run, &["q1"]);
    world.answer_by(&opened.run, "1", &head()).expect("answered");
    world.take();
    assert_eq!(code(world.stop(&opened.run, Some(cancel(&head(), &opened.run, signed)))), "act-spent");
    assert_eq!(world.status(&opened.run), Status::Running);
}

#[test]
fn resolve_and_cancel_never_stand_for_each_other() {
    let run = RunId::parse("run_0123456789abcdef01234567").expect("an id");
    let at = Moment::from_secs(START);
    assert!(SignedAct::cancel(&Proof::resolve(&head(), run.as_str(), at), run.as_str()).is_err());
    assert!(SignedAct::resolve(&Proof::cancel(&head(), run.as_str(), at), run.as_str()).is_err());
}

#[test]
fn an_act_for_one_run_is_no_act_for_another() {
    let mut world = World::new();
    let (link, first) = world.waiting(&["q1"]);
    let second = world.open(&a());
    world.take();
    world.pause(link, &second.run, &["q1"]);
    // Not even when a door hands the wrong pair in.
    let act = resolve(&head(), &first.run, world.at());
    assert_eq!(code(world.answer(&second.run, "1", Some(act))), "not-an-authority");
    let act = cancel(&head(), &first.run, world.at());
    assert_eq!(code(world.stop(&second.run, Some(act))), "not-an-authority");
}

#[test]
fn a_presenter_proof_is_good_once_at_one_agent_of_one_witness() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let own = chain(&[head()]);
    let tip = Some(own.tip());
    let proof = world.presenter_proof(&head(), &to, tip);
    let w = witness().public();
    let present = || SignedPresenter::verify(&proof, &w, &to.provider, &to.name, tip).expect("signed for this");
    let caller = || Caller { chain: Some(own.clone()), certificate: None, presenter: Presenting::Signed(present()) };
    world.speak(&to, Place::New, caller()).expect("once");
    assert_eq!(code(world.speak(&to, Place::New, caller())), "presenter-spent");

    let other = AgentName::new("other").expect("a name");
    assert!(SignedPresenter::verify(&proof, &w, &to.provider, &other, tip).is_err(), "another agent");
    assert!(SignedPresenter::verify(&proof, &w, &b().public(), &to.name, tip).is_err(), "another provider");
    assert!(SignedPresenter::verify(&proof, &stranger().public(), &to.provider, &to.name, tip).is_err(), "a witness");
    assert!(SignedPresenter::verify(&proof, &w, &to.provider, &to.name, None).is_err(), "without the chain");
}

#[test]
fn a_refused_request_does_not_burn_its_presenter_proof() {
    let mut world = World::new();
    let link = world.serve(&a());
    let to = agent(&a());
    let opened = world.open(&a());
    world.take();
    world.complete(link, &opened.run);
    let own = chain(&[stranger()]);
    let proof = world.presenter_proof(&stranger(), &to, Some(own.tip()));
    let w = witness().public();
    let caller = || Caller {
        chain: Some(own.clone()),
        certificate: None,
        presenter: Presenting::Signed(
            SignedPresenter::verify(&proof, &w, &to.provider, &to.name, Some(own.tip())).expect("signed for this"),
        ),
    };
    assert_eq!(code(world.speak(&to, Place::Thread(opened.thread), caller())), "not-a-member");
    world.speak(&to, Place::New, caller()).expect("still good elsewhere");
}

/// The signed strings are joined by `:`; no id the witness mints or reads holds one,
/// and look-alikes are no ids.
#[test]
fn ids_hold_no_separator_and_no_look_alikes() {
    for text in [
        "run_0123456789abcdef0123456:",
        "run_0123456789abcdef01234567:1790000000",
        "run_0123456789ABCDEF01234567",
        "run_0123456789abcdef0123456\u{0430}",
        "run_0123456789abcdef0123456",
        "run_0123456789abcdef012345678",
        " run_0123456789abcdef01234567",
        "Run_0123456789abcdef01234567",
        "thread_0123456789abcdef01234567",
        "",
    ] {
        assert!(RunId::parse(text).is_none(), "{text:?}");
    }
    // A name may hold a colon (any script, no control characters): the place signed for
    // then still differs, because the tip has a fixed length behind it.
    let key = SigningKey::from_seed([9; 32]);
    let nonce = "0".repeat(32);
    let w = witness().public();
    let (short, long) = (AgentName::new("x").expect("a name"), AgentName::new("x:y").expect("a name"));
    let proof = Proof::present(&key, &w, &a().public(), &long, None, &nonce, Moment::from_secs(START));
    assert!(SignedPresenter::verify(&proof, &w, &a().public(), &short, None).is_err());
}

/// Spent is the signer and the bytes. Another signature over them is the same act.
#[test]
fn another_signature_over_the_same_bytes_is_the_same_act() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    let signed = world.at();
    let first = Proof::resolve(&head(), opened.run.as_str(), signed);
    let second = another_signature(&first, &opened.run);
    assert_ne!(first.signature.to_hex(), second.signature.to_hex());
    let act = SignedAct::resolve(&first, opened.run.as_str()).expect("signed");
    world.answer(&opened.run, "1", Some(act)).expect("won");
    world.take();
    world.pause(link, &opened.run, &["q2"]);
    let act = SignedAct::resolve(&second, opened.run.as_str()).expect("it verifies strictly");
    assert_eq!(code(world.answer(&opened.run, "2", Some(act))), "act-spent");
}

/// Ed25519 signatures are made with a deterministic nonce, not checked for one: the
/// owner of the key can sign the same bytes again with any other. Made here from the
/// curve itself.
fn another_signature(first: &Proof, run: &RunId) -> Proof {
    use curve25519_dalek::{Scalar, constants::ED25519_BASEPOINT_TABLE};
    use sha2::{Digest as _, Sha512};
    let message = wikala_chain::payload::resolve(run.as_str(), first.timestamp);
    let expanded: [u8; 64] = Sha512::digest([0x01; 32]).into();
    let mut secret: [u8; 32] = expanded[..32].try_into().expect("half of 64");
    secret[0] &= 248;
    secret[31] = secret[31] & 63 | 64;
    let secret = Scalar::from_bytes_mod_order(secret);
    let nonce = Scalar::from(4242u64);
    let commitment = (&nonce * ED25519_BASEPOINT_TABLE).compress();
    let challenge: [u8; 64] = Sha512::new()
        .chain_update(commitment.as_bytes())
        .chain_update(first.public_key.as_bytes())
        .chain_update(message.as_bytes())
        .finalize()
        .into();
    let answer = nonce + Scalar::from_bytes_mod_order_wide(&challenge) * secret;
    let mut bytes = [0u8; 64];
    bytes[..32].copy_from_slice(commitment.as_bytes());
    bytes[32..].copy_from_slice(answer.as_bytes());
    Proof { signature: wikala_chain::Signature::from_bytes(bytes), ..first.clone() }
}

#[test]
fn a_ticket_burns_once() {
    let mut world = World::new();
    assert!(world.run(|w, now| w.burn_ticket(now, "t")).expect("only faults"));
    assert!(!world.run(|w, now| w.burn_ticket(now, "t")).expect("only faults"));
    world.crash();
    assert!(!world.run(|w, now| w.burn_ticket(now, "t")).expect("only faults"), "not even after a restart");
}

/// A certificate slipped in beside somebody else's act neither helps nor records.
#[test]
fn an_unaccepted_certificate_beside_an_act_counts_for_that_act_only() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    let slip: Consented = unaccepted(&b(), &head(), START + 600);
    let mut answer = single(&opened.run, "1", Some(resolve(&head(), &opened.run, world.at())));
    answer.certificate = Some(slip);
    world.answer_with(answer).expect("the head is still the head");
    world.take();
    // Not recorded: H acts as itself, and B cannot speak for it.
    world.pause(link, &opened.run, &["q2"]);
    assert_eq!(code(world.answer_by(&opened.run, "2", &b())), "not-an-authority");
    world.now += 1;
    world.answer_by(&opened.run, "2", &head()).expect("as itself");
    let to = AgentId { provider: a().public(), name: agent(&a()).name };
    assert_eq!(world.thread_head(&opened.thread), Some(head().public()), "{}", to.name.as_str());
}
