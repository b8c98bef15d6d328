//! Certificates, sentence by sentence of wire.md (Signed strings, *Proof … Certificate*).

use wikala_certs::SignedCertificate;
use wikala_witness::{Caller, Consented, Place, Policy, Presenting, ReadPolicy};

use crate::harness::*;

/// A caller whose hop 0 a session key signed, with a certificate beside the chain.
fn by_session(world: &mut World, certificate: Option<Consented>) -> Caller {
    let mut caller = world.carrying(chain(&[session()]), &session(), &agent(&a()));
    caller.certificate = certificate;
    caller
}

#[test]
fn with_consent_the_authority_is_the_head_and_stays_it() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let caller = by_session(&mut world, Some(accepted(&head(), &session(), START + 600)));
    let first = world.speak(&to, Place::New, caller).expect("opened");
    assert_eq!(world.thread_head(&first.thread), Some(head().public()));
    // On record from now on: the next chain needs no certificate to resolve.
    let caller = by_session(&mut world, None);
    let second = world.speak(&to, Place::New, caller).expect("opened");
    assert_eq!(world.view(&second.run).head, Some(head().public()));
    // The delivered bag carries it as received, and only where it came along.
    assert!(world.offers()[0].1.delegation.as_deref().is_some_and(|raw| raw.contains("acceptance")));
}

/// B signs "H is my delegate" and attaches it to H's chain: the segment would be B's.
#[test]
fn a_certificate_without_its_delegates_consent_steals_no_segment() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let theft = unaccepted(&b(), &head(), START + 600);
    let mut caller = world.carrying(chain(&[head(), b()]), &b(), &to);
    caller.certificate = Some(theft.clone());
    assert_eq!(code(world.speak(&to, Place::New, caller)), "certificate-not-accepted");
    assert_eq!(code(world.run(|w, now| w.record_certificate(now, &theft))), "certificate-not-accepted");
    // An acceptance of another certificate is none of this one.
    assert!(SignedCertificate::issue(&b(), &head().public(), START + 600).accept(&b()).is_err());
    // The same chain without it: the head is H, as its hop 0 says.
    let caller = world.carrying(chain(&[head(), b()]), &b(), &to);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    assert_eq!(world.thread_head(&opened.thread), Some(head().public()));
}

#[test]
fn the_delegates_own_signature_over_the_request_is_consent_too() {
    let mut world = World::new();
    world.serve(&a());
    let signed_here = Consented { by_request: true, ..unaccepted(&head(), &session(), START + 600) };
    let caller = by_session(&mut world, Some(signed_here));
    world.speak(&agent(&a()), Place::New, caller).expect("opened");
    // And a pair on record needs no more.
    let again = Some(unaccepted(&head(), &session(), START + 900));
    let caller = by_session(&mut world, again);
    world.speak(&agent(&a()), Place::New, caller).expect("opened");
}

#[test]
fn a_certificate_must_be_of_the_key_that_signed() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    let to = agent(&a());
    // Beside a chain of H: of neither hop 0, though of the last hop.
    let mut caller = world.carrying(chain(&[head(), session()]), &session(), &to);
    caller.certificate = Some(accepted(&b(), &session(), START + 600));
    assert_eq!(code(world.speak(&to, Place::New, caller)), "certificate-not-signer");
    // Without a chain: of who stands at the door.
    let mut caller = world.signing(&stranger(), &to);
    caller.certificate = Some(accepted(&head(), &session(), START + 600));
    assert_eq!(code(world.speak(&to, Place::New, caller)), "certificate-not-signer");
    let mut caller = world.signing(&session(), &to);
    caller.certificate = Some(accepted(&head(), &session(), START + 600));
    world.speak(&to, Place::New, caller).expect("the delegate itself");
    // Beside an act, and beside no act at all.
    let mut answer = single(&opened.run, "1", Some(resolve(&stranger(), &opened.run, world.at())));
    answer.certificate = Some(accepted(&head(), &session(), START + 600));
    assert_eq!(code(world.answer_with(answer)), "certificate-not-signer");
    let mut answer = single(&opened.run, "1", None);
    answer.certificate = Some(accepted(&head(), &session(), START + 600));
    assert_eq!(code(world.answer_with(answer)), "certificate-not-signer");
}

/// On a run without any head no act is needed; a certificate is judged all the same.
#[test]
fn a_certificate_beside_nothing_records_nothing() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.speak(&agent(&a()), Place::New, Caller::default()).expect("opened");
    world.take();
    world.pause(link, &opened.run, &["q1"]);
    for pair in [accepted(&b(), &session(), START + 600), accepted(&b(), &session(), START - 1)] {
        let late = pair.certificate.expires_at() < START;
        let expected = if late { "certificate-expired" } else { "certificate-not-signer" };
        let mut answer = single(&opened.run, "1", None);
        answer.certificate = Some(pair.clone());
        assert_eq!(code(world.answer_with(answer)), expected);
        let stop = wikala_witness::Stop { agent: None, run: opened.run.clone(), act: None, certificate: Some(pair) };
        assert_eq!(code(world.run(|w, now| w.stop(now, stop))), expected);
    }
    let other = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &other)).expect("the session key is still free");
}

#[test]
fn a_session_key_acts_as_its_authority_with_the_certificate_beside_the_act() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    assert_eq!(code(world.answer_by(&opened.run, "1", &session())), "not-an-authority");
    let mut answer = single(&opened.run, "1", Some(resolve(&session(), &opened.run, world.at())));
    answer.certificate = Some(unaccepted(&head(), &session(), START + 600));
    world.answer_with(answer).expect("as the head");
    let ask = &world.view(&opened.run).asks[0];
    assert_eq!((ask.answered_by, ask.answered_with), (Some(head().public()), Some(session().public())));
    // Without consent the pair is not recorded; with it, it is.
    world.take();
    world.pause(link, &opened.run, &["q2"]);
    world.now += 1;
    assert_eq!(code(world.answer_by(&opened.run, "2", &session())), "not-an-authority");
    let mut answer = single(&opened.run, "2", Some(resolve(&session(), &opened.run, world.at())));
    answer.certificate = Some(accepted(&head(), &session(), START + 600));
    world.answer_with(answer).expect("as the head");
    world.take();
    world.pause(link, &opened.run, &["q3"]);
    world.now += 1;
    world.answer_by(&opened.run, "3", &session()).expect("on record");
}

#[test]
fn a_delegate_is_never_rebound() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    let first = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &first)).expect("recorded");
    let other = accepted(&b(), &session(), START + 600);
    assert_eq!(code(world.run(|w, now| w.record_certificate(now, &other))), "delegate-rebound");
    let caller = by_session(&mut world, Some(other.clone()));
    assert_eq!(code(world.speak(&agent(&a()), Place::New, caller)), "delegate-rebound");
    let mut answer = single(&opened.run, "1", Some(resolve(&session(), &opened.run, world.at())));
    answer.certificate = Some(other);
    assert_eq!(code(world.answer_with(answer)), "delegate-rebound");
}

#[test]
fn an_expired_delegate_does_not_act_but_chains_others_extended_resolve() {
    let mut world = World::with(Policy { reads: ReadPolicy::Parties, ..Policy::default() });
    let (_, opened) = world.waiting(&["q1"]);
    let pair = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &pair)).expect("recorded");
    let to = agent(&a());
    world.now = START + 600;
    let caller = by_session(&mut world, None);
    world.speak(&to, Place::New, caller).expect("live while now <= expiresAt");
    world.now += 1;
    let caller = by_session(&mut world, None);
    assert_eq!(code(world.speak(&to, Place::New, caller)), "certificate-expired", "a presenter");
    assert_eq!(code(world.answer_by(&opened.run, "1", &session())), "certificate-expired", "an act");
    assert_eq!(code(world.stop_by(&opened.run, &session())), "certificate-expired", "a cancel");
    let (reader, at) = (world.reader(), world.at());
    let read = reader.viewer(at, session().public());
    assert!(matches!(read, Err(wikala_witness::No::Refusal(r)) if r.code.as_str() == "certificate-expired"), "a read");
    // B was handed the session's chain while it lived, and extends it now.
    let caller = world.carrying(chain(&[session(), b()]), &b(), &to);
    let late = world.speak(&to, Place::New, caller).expect("opened");
    assert_eq!(world.thread_head(&late.thread), Some(head().public()));
    // An expired certificate beside it is refused, recorded or not.
    let mut caller = world.carrying(chain(&[session(), b()]), &b(), &to);
    caller.certificate = Some(pair);
    assert_eq!(code(world.speak(&to, Place::New, caller)), "certificate-expired");
    // A new one for the same pair revives the delegate; an older never shortens it.
    let renewed = accepted(&head(), &session(), world.now + 100);
    world.run(|w, now| w.record_certificate(now, &renewed)).expect("renewed");
    let shorter = accepted(&head(), &session(), world.now + 1);
    world.run(|w, now| w.record_certificate(now, &shorter)).expect("recorded");
    world.now += 50;
    world.answer_by(&opened.run, "1", &session()).expect("live again");
}

/// A raw key bound before its certificate was recorded resolves when it is checked.
#[test]
fn a_raw_head_in_a_binding_resolves_through_the_record() {
    let mut world = World::new();
    let link = world.serve(&a());
    let to = agent(&a());
    let caller = by_session(&mut world, None);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    assert_eq!(world.thread_head(&opened.thread), Some(session().public()), "unrecorded: the raw key");
    world.take();
    world.pause(link, &opened.run, &["q1"]);
    assert_eq!(code(world.answer_by(&opened.run, "1", &head())), "not-an-authority");
    let pair = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &pair)).expect("recorded");
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    world.speak(&to, Place::Thread(opened.thread.clone()), caller).expect("a member");
    world.answer_by(&opened.run, "1", &head()).expect("the authority");
    // And for good: after the certificate ended the thread is still the head's.
    world.now = START + 10_000;
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    world.speak(&to, Place::Thread(opened.thread), caller).expect("never un-resolved");
}

#[test]
fn the_presenter_is_compared_by_the_raw_last_hop() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let pair = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &pair)).expect("recorded");
    let own = chain(&[session()]);
    let proof = world.presenter(&head(), &to, Some(own.tip()));
    let caller = Caller { chain: Some(own), certificate: None, presenter: Presenting::Signed(proof) };
    assert_eq!(code(world.speak(&to, Place::New, caller)), "presenter-mismatch");
}

/// A key is a delegate or has delegates, never both: D's own would be stranded the
/// moment D stood for somebody else.
#[test]
fn delegations_have_one_level() {
    let mut world = World::new();
    let record = |world: &mut World, authority, delegate| {
        let certificate = accepted(&authority, &delegate, START + 600);
        world.run(move |w, now| w.record_certificate(now, &certificate))
    };
    record(&mut world, head(), session()).expect("recorded");
    assert_eq!(code(record(&mut world, b(), head())), "delegate-rebound");
    assert_eq!(code(record(&mut world, session(), stranger())), "delegate-rebound");
    record(&mut world, head(), session()).expect("the same pair again");
    record(&mut world, head(), stranger()).expect("a sibling");
}

/// It gave a thread its name before it was anybody's delegate.
#[test]
fn a_session_key_finds_its_alias_after_it_is_recorded() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let caller = world.signing(&session(), &to);
    let first = world.speak(&to, Place::Alias("main".into()), caller).expect("opened");
    let certificate = accepted(&head(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &certificate)).expect("recorded");
    let caller = world.signing(&session(), &to);
    let again = world.speak(&to, Place::Alias("main".into()), caller).expect("opened");
    assert_eq!(again.thread, first.thread);
    let caller = world.signing(&head(), &to);
    let other = world.speak(&to, Place::Alias("main".into()), caller).expect("opened");
    assert_ne!(other.thread, first.thread, "another key's name is another's");
}
