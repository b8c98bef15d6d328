//! Threads and who may write in them: binding, membership, aliases, joins, the queue,
//! who may read.

use wikala_chain::{Digest, VerifiedChain};
use wikala_witness::{Caller, Place, Policy, PresenterPolicy, Presenting, ReadPolicy};

use crate::harness::*;

#[test]
fn the_chain_stored_is_the_chain_delivered_and_one_hop_longer() {
    let mut world = World::new();
    let link = world.serve(&a());
    let own = chain(&[head(), c()]);
    let to = agent(&a());
    let caller = world.carrying(own.clone(), &c(), &to);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    let delivery = world.take();
    let handed = delivered(&delivery);
    assert_eq!(handed.tokens().take(2).collect::<Vec<_>>(), own.tokens().collect::<Vec<_>>());
    assert_eq!(handed.hops().len(), 3);
    let ours = &handed.hops()[2];
    assert_eq!(ours.actor(), witness().public());
    assert_eq!(ours.dispatched_to().map(|to| to.provider), Some(a().public()));
    assert_eq!(world.view(&opened.run).chain, delivery.chain);
    // A continuation and a second offer sign nothing new.
    world.pause(link, &opened.run, &["q1"]);
    world.answer_by(&opened.run, "1", &head()).expect("answered");
    let (_, again) = world.offers().remove(0);
    assert_eq!((again.chain, again.leg.ordinal), (delivery.chain, 1));
    // Without a chain there is no hop, and never one begun by us.
    world.serve(&b());
    world.speak(&agent(&b()), Place::New, Caller::default()).expect("opened");
    assert_eq!(world.take().chain, None);
}

#[test]
fn membership_of_a_bound_thread() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    // Born under [H, C]: C may go on with it.
    let caller = world.carrying(chain(&[head(), c()]), &c(), &to);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    let place = || Place::Thread(opened.thread.clone());
    let handed = delivered(&world.take());
    let mut say = |chain: VerifiedChain, key| {
        let caller = world.carrying(chain, &key, &to);
        world.speak(&to, place(), caller).map(|_| ())
    };
    say(chain(&[head()]), head()).expect("the head");
    say(chain(&[head(), c()]), c()).expect("an actor of the birth chain");
    say(chain(&[a()]), a()).expect("the provider, whatever its head");
    // A downstream party holding the head's hops walks upstream.
    assert_eq!(code(say(chain(&[head(), b()]), b())), "not-a-member");
    assert_eq!(code(say(handed.extend(&a()).expect("named").extend(&b()).expect("b"), b())), "not-a-member");
    assert_eq!(code(say(chain(&[c()]), c())), "not-a-member", "an actor, but of another segment");
    assert_eq!(code(say(chain(&[stranger()]), stranger())), "not-a-member");
    // The delivered chain replayed as it is: the witness would have to present it.
    let caller = Caller { chain: Some(handed.clone()), ..Caller::default() };
    assert_eq!(code(world.speak(&to, place(), caller)), "presenter-required");
    let proof = world.presenter(&stranger(), &to, Some(handed.tip()));
    let caller = Caller { chain: Some(handed), certificate: None, presenter: Presenting::Signed(proof) };
    assert_eq!(code(world.speak(&to, place(), caller)), "presenter-mismatch");
    // A chainless head is no member: no chain ends the segment. The chainless provider is.
    let caller = world.signing(&head(), &to);
    assert_eq!(code(world.speak(&to, place(), caller)), "not-a-member");
    let caller = world.signing(&a(), &to);
    world.speak(&to, place(), caller).expect("the provider");
}

#[test]
fn an_unbound_thread_stays_unbound_and_its_chained_visitors_keep_their_say() {
    let mut world = World::new();
    let link = world.serve(&a());
    let to = agent(&a());
    let opened = world.speak(&to, Place::New, Caller::default()).expect("opened");
    world.take();
    world.pause(link, &opened.run, &["q1"]);
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    let visit = world.speak(&to, Place::Thread(opened.thread.clone()), caller).expect("anyone");
    assert_eq!(world.thread_head(&opened.thread), None, "never locked");
    world.take();
    world.pause(link, &visit.run, &["q2"]);
    assert_eq!(code(world.answer(&visit.run, "1", None)), "act-required");
    assert_eq!(code(world.answer_by(&visit.run, "1", &stranger())), "not-an-authority");
    world.answer_by(&visit.run, "1", &head()).expect("its own head");
    // With no head at all, whoever knows the id.
    world.answer(&opened.run, "1", None).expect("open");
    world.stop(&opened.run, None).expect("open");
}

#[test]
fn without_a_proof_of_its_presenter_a_chain_is_refused_unless_the_operator_says_so() {
    let mut world = World::new();
    world.serve(&a());
    let bare = || Caller { chain: Some(chain(&[head()])), ..Caller::default() };
    assert_eq!(code(world.speak(&agent(&a()), Place::New, bare())), "presenter-required");
    let mut lax = World::with(Policy { presenter: PresenterPolicy::Optional, ..Policy::default() });
    lax.serve(&a());
    let opened = lax.speak(&agent(&a()), Place::New, bare()).expect("the reference's behaviour");
    assert_eq!(lax.view(&opened.run).opener, None, "taken at its word, never as the opener");
    assert_eq!(lax.thread_head(&opened.thread), Some(head().public()));
}

#[test]
fn aliases_are_private_to_agent_head_and_presenter() {
    let mut world = World::new();
    world.serve(&a());
    world.serve(&b());
    let name = || Place::Alias("main".into());
    let mut say = |signers: &[wikala_chain::SigningKey], to: &wikala_chain::SigningKey| {
        let to = agent(to);
        let caller = match signers.last() {
            Some(last) => world.carrying(chain(signers), last, &to),
            None => Caller::default(),
        };
        world.speak(&to, name(), caller).expect("opened").thread
    };
    let mine = say(&[head()], &a());
    assert_eq!(say(&[head()], &a()), mine);
    let all = [
        mine,
        say(&[stranger()], &a()),
        say(&[head(), c()], &a()),
        say(&[head()], &b()),
        // A guessable name of nobody always opens a fresh thread.
        say(&[], &a()),
        say(&[], &a()),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(!all[..i].contains(one), "{i}");
    }
    // A name nobody can guess is a capability.
    let mut anonymous =
        |text: &str| world.speak(&agent(&a()), Place::Alias(text.into()), Caller::default()).expect("opened").thread;
    for uuid in ["0b5e4a1e-6c1f-4d7b-9a53-0242ac120002", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        assert_eq!(anonymous(uuid), anonymous(uuid), "{uuid}");
    }
    for other in [
        "0b5e4a1e-6c1f-1d7b-9a53-0242ac120002",
        "0b5e4a1e-6c1f-4d7b-7a53-0242ac120002",
        "0b5e4a1e-6c1f-4d7b-9a53-0242ac12000g",
        "0b5e4a1e6c1f4d7b9a530242ac120002",
    ] {
        assert_ne!(anonymous(other), anonymous(other), "{other}");
    }
}

#[test]
fn the_same_client_run_joins_and_another_body_is_refused() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let mut say = |body: &[u8]| {
        let caller = world.carrying(chain(&[head()]), &head(), &to);
        let mut said = utterance(&to, Place::Alias("main".into()), caller);
        said.client_run = Some(("r1".into(), Digest::of(body)));
        world.run(|w, now| w.speak(now, said))
    };
    let first = say(b"x").expect("opened");
    let again = say(b"x").expect("joined");
    assert!(again.joined && again.run == first.run);
    assert_eq!(code(say(b"y")), "run-id-reused");
}

#[test]
fn the_queue_of_a_thread_is_eight_and_says_so() {
    let mut world = World::new();
    world.serve(&a());
    let opened = world.open(&a());
    world.take();
    let to = agent(&a());
    let mut say = || {
        let caller = world.carrying(chain(&[head()]), &head(), &to);
        world.speak(&to, Place::Thread(opened.thread.clone()), caller)
    };
    for _ in 0..8 {
        say().expect("queued");
    }
    assert_eq!(code(say()), "queue-full");
}

#[test]
fn reads_of_bound_threads_can_be_kept_to_their_parties() {
    let mut world = World::with(Policy { reads: ReadPolicy::Parties, ..Policy::default() });
    world.serve(&a());
    let to = agent(&a());
    let caller = world.carrying(chain(&[head(), c()]), &c(), &to);
    let opened = world.speak(&to, Place::New, caller).expect("opened");
    let reader = world.reader();
    for party in [head(), c(), a()] {
        reader.run(&opened.run, Some(party.public())).expect("a party");
        reader.thread(&opened.thread, Some(party.public())).expect("a party");
        reader.entries(&opened.run, 0, 10, Some(party.public())).expect("a party");
    }
    let unknown = |told: Result<(), wikala_witness::No>, expected: &str| match told {
        Err(wikala_witness::No::Refusal(refusal)) => assert_eq!(refusal.code.as_str(), expected),
        other => panic!("{other:?}"),
    };
    for viewer in [None, Some(b().public()), Some(stranger().public())] {
        unknown(reader.run(&opened.run, viewer).map(drop), "run-unknown");
        unknown(reader.entries(&opened.run, 0, 10, viewer).map(drop), "run-unknown");
        unknown(reader.turn(&opened.run, viewer).map(drop), "run-unknown");
        unknown(reader.thread(&opened.thread, viewer).map(drop), "thread-unknown");
        unknown(reader.turns(&opened.thread, viewer).map(drop), "thread-unknown");
        unknown(reader.tree(&opened.thread, viewer).map(drop), "thread-unknown");
    }
    unknown(reader.turns_for_provider(&opened.thread, b().public()).map(drop), "thread-unknown");
    reader.turns_for_provider(&opened.thread, a().public()).expect("who serves it");
    // An unbound thread is for whoever knows its id.
    let open = world.speak(&to, Place::New, Caller::default()).expect("opened");
    world.reader().run(&open.run, None).expect("open");
}
