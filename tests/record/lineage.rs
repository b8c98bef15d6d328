//! Trees, lists and `onward`: what a viewer is shown stops at segment boundaries,
//! and the witness still tells *that*, never *to whom*.

use wikala_chain::{PublicKey, SigningKey};
use wikala_witness::{
    Caller, Effect, Lineage, LinkId, Onward, Opened, Place, Policy, PresenterPolicy, RunFilter, Status, ThreadId,
    TreeNode,
};

use crate::harness::*;

/// How B calls C behind A's back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Call {
    /// It extends the chain it was handed.
    Extends,
    /// It starts a chain of its own.
    Fresh,
    /// No chain, but it signs.
    Bare,
    /// It takes our hop out and goes on from A's.
    Strips,
    /// Nobody asks.
    Anonymous,
}

const CALLS: [Call; 5] = [Call::Extends, Call::Fresh, Call::Bare, Call::Strips, Call::Anonymous];

/// H -> A -> B, and (under ii) B -> C.
struct Scene {
    world: World,
    at_a: Opened,
    at_b: Opened,
    at_c: Option<Opened>,
    b: LinkId,
}

fn scene(call: Option<Call>) -> Scene {
    let mut world = World::new();
    let (_, b_link) = (world.serve(&a()), world.serve(&b()));
    world.serve(&c());
    let at_a = world.open(&a());
    let to_a = delivered(&world.take());
    let from_a = to_a.extend(&a()).expect("named");
    let at_b = speak_under(&mut world, &b(), Some((from_a.clone(), a())), &at_a);
    let to_b = delivered(&world.take());
    assert_eq!(world.view(&at_b.run).onward, None, "told once the run has ended");
    let at_c = call.map(|call| {
        let carried = match call {
            Call::Extends => Some((to_b.extend(&b()).expect("named"), b())),
            Call::Fresh => Some((chain(&[b()]), b())),
            Call::Strips => Some((from_a.extend(&b()).expect("A's hop binds nobody"), b())),
            Call::Bare | Call::Anonymous => None,
        };
        let to = agent(&c());
        if call == Call::Bare {
            let caller = world.signing(&b(), &to);
            return speak_referring(&mut world, &c(), caller, &at_b);
        }
        speak_under(&mut world, &c(), carried, &at_b)
    });
    if at_c.is_some() {
        let handed = world.take();
        if call == Some(Call::Extends) {
            let last = delivered(&handed);
            let last = last.hops().last().expect("a hop").dispatched_to().expect("a dispatch").provider;
            assert_eq!(last, c().public(), "the chain C received names C");
        }
    }
    world.complete(b_link, &at_b.run);
    Scene { world, at_a, at_b, at_c, b: b_link }
}

fn speak_under(
    world: &mut World,
    provider: &SigningKey,
    carried: Option<(wikala_chain::VerifiedChain, SigningKey)>,
    reference: &Opened,
) -> Opened {
    let caller = match carried {
        Some((chain, key)) => world.carrying(chain, &key, &agent(provider)),
        None => Caller::default(),
    };
    speak_referring(world, provider, caller, reference)
}

fn speak_referring(world: &mut World, provider: &SigningKey, caller: Caller, reference: &Opened) -> Opened {
    let mut said = utterance(&agent(provider), Place::New, caller);
    said.lineage = Lineage { reference: Some(reference.run.to_string()), parent_run: None };
    world.run(|w, now| w.speak(now, said)).expect("opened")
}

fn onward(world: &World, opened: &Opened, viewer: Option<PublicKey>) -> Onward {
    world.reader().run(&opened.run, viewer).expect("known").onward.expect("ended")
}

fn counts(onward: &Onward) -> [u64; 3] {
    [onward.under_chain, onward.by_provider_key, onward.anonymous]
}

#[test]
fn an_outside_reader_tells_one_dispatch_from_two_in_all_five_variants() {
    let one = scene(None);
    let seen = onward(&one.world, &one.at_b, None);
    assert_eq!((counts(&seen), seen.shared_with, seen.upper_bounds), ([0, 0, 0], 0, false));
    for call in CALLS {
        let two = scene(Some(call));
        let seen = onward(&two.world, &two.at_b, None);
        let expected = match call {
            Call::Extends => [1, 0, 0],
            Call::Fresh | Call::Bare | Call::Strips => [0, 1, 0],
            Call::Anonymous => [0, 0, 1],
        };
        assert_eq!(counts(&seen), expected, "{call:?}");
        assert!(seen.runs.is_empty(), "{call:?}: that, never to whom");
        let flags = two.world.view(&two.at_c.as_ref().expect("called").run).flags;
        assert_eq!(flags.contains(&"dispatch-hop-missing".to_owned()), call == Call::Strips, "{call:?}");
    }
}

#[test]
fn names_are_told_inside_the_viewers_own_segment_only() {
    let two = scene(Some(Call::Extends));
    let at_c = two.at_c.as_ref().expect("called").run.to_string();
    for (viewer, named) in [(head(), true), (b(), true), (c(), true), (a(), false), (stranger(), false)] {
        let seen = onward(&two.world, &two.at_b, Some(viewer.public()));
        assert_eq!(seen.runs.contains(&at_c), named, "{}", viewer.public().fingerprint());
        assert_eq!(counts(&seen), [1, 0, 0]);
    }
}

#[test]
fn what_is_dispatched_outside_the_window_does_not_count() {
    let mut two = scene(None);
    // After its end; by somebody else; and the first hop's own onward.
    let caller = two.world.signing(&b(), &agent(&c()));
    two.world.speak(&agent(&c()), Place::New, caller).expect("opened");
    let caller = two.world.signing(&stranger(), &agent(&c()));
    two.world.speak(&agent(&c()), Place::New, caller).expect("opened");
    assert_eq!(counts(&onward(&two.world, &two.at_b, None)), [0, 0, 0]);
    let _ = two.b;
    let a_link = two.world.serve(&a());
    let held = [wikala_witness::Holding { run: two.at_a.run.clone(), last_seq: 0 }];
    two.world.run(|w, _| w.holding(a_link, &held)).expect("held");
    two.world.complete(a_link, &two.at_a.run);
    assert_eq!(counts(&onward(&two.world, &two.at_a, None)), [1, 0, 0], "A's own dispatch to B");
}

/// A run that nobody signed for is not its own onward, nor is what came before it.
#[test]
fn a_run_is_not_its_own_onward() {
    let mut world = World::new();
    let link = world.serve(&a());
    let mut anonymous = || {
        let opened = world.speak(&agent(&a()), Place::New, Caller::default()).expect("opened");
        world.take();
        world.complete(link, &opened.run);
        onward(&world, &opened, None)
    };
    assert_eq!([counts(&anonymous()), counts(&anonymous())], [[0, 0, 0]; 2]);
}

#[test]
fn a_pause_belongs_to_the_window_and_a_recorded_delegate_counts_as_its_provider() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    world.serve(&c());
    let pair = accepted(&a(), &session(), START + 600);
    world.run(|w, now| w.record_certificate(now, &pair)).expect("recorded");
    let caller = world.signing(&session(), &agent(&c()));
    world.speak(&agent(&c()), Place::New, caller).expect("opened");
    world.answer_by(&opened.run, "1", &head()).expect("answered");
    world.effects.retain(|e| !matches!(e, Effect::Offer { delivery, .. } if delivery.run != opened.run));
    world.take();
    world.complete(link, &opened.run);
    assert_eq!(counts(&onward(&world, &opened, None)), [0, 1, 0]);
}

#[test]
fn twins_under_one_chain_make_the_counts_upper_bounds() {
    let mut world = World::new();
    let link = world.serve(&a());
    let (first, second) = (world.open(&a()), world.open(&a()));
    for (_, delivery) in world.offers() {
        world.verdict(link, &delivery.run, wikala_witness::Verdict::Accepted);
    }
    assert_eq!(world.view(&first.run).chain, world.view(&second.run).chain, "hops carry no run id");
    world.complete(link, &first.run);
    let seen = onward(&world, &first, None);
    assert_eq!((seen.shared_with, seen.upper_bounds), (1, true));
}

#[test]
fn an_unproved_presenter_is_nobody_in_onward() {
    let mut world = World::with(Policy { presenter: PresenterPolicy::Optional, ..Policy::default() });
    let link = world.serve(&a());
    world.serve(&c());
    let opened = world.open(&a());
    world.take();
    // Somebody who merely says it is A must not be counted as A.
    let said = Caller { chain: Some(chain(&[a()])), ..Caller::default() };
    world.speak(&agent(&c()), Place::New, said).expect("taken at its word");
    world.complete(link, &opened.run);
    assert_eq!(counts(&onward(&world, &opened, None)), [0, 0, 1]);
}

/// The threads of a tree, root first.
fn listed(node: &TreeNode) -> Vec<ThreadId> {
    let mut all = vec![node.thread.clone()];
    all.extend(node.children.iter().flat_map(listed));
    all
}

#[test]
fn p01_the_tree_is_filtered_by_segment_in_every_variant() {
    for call in CALLS {
        let two = scene(Some(call));
        let threads = [&two.at_a, &two.at_b, two.at_c.as_ref().expect("called")].map(|o| o.thread.clone());
        let see = |viewer: Option<SigningKey>, from: usize| {
            let viewer = viewer.map(|key| key.public());
            listed(&two.world.reader().tree(&threads[from], viewer).expect("a known id"))
        };
        // One segment as long as the chain is extended, by stripping or not.
        let same = matches!(call, Call::Extends | Call::Strips);
        let whole = if same { &threads[..] } else { &threads[..2] };
        assert_eq!(see(Some(head()), 0), whole, "{call:?}: the head");
        assert_eq!(see(Some(a()), 0), &threads[..2], "{call:?}: A opened the run at B, C is hidden from it");
        assert_eq!(see(None, 0), &threads[..1], "{call:?}: nobody");
        assert_eq!(see(Some(stranger()), 0), &threads[..1], "{call:?}: a stranger");
        assert_eq!(
            see(Some(b()), 0),
            if call == Call::Anonymous { &threads[..2] } else { &threads[..] },
            "{call:?}: B"
        );
        assert_eq!(see(Some(c()), 1), &threads[1..], "{call:?}: C sees what its key serves");
        assert_eq!(see(Some(c()), 0), &threads[..1], "{call:?}: and descends through listed nodes only");
        let all = two.world.reader().operator_tree(&threads[0]).expect("known");
        assert_eq!(listed(&all), threads, "{call:?}: the operator sees all");
    }
}

#[test]
fn unbound_nodes_show_their_unbound_children_to_whoever_knows_the_id() {
    let mut world = World::new();
    world.serve(&a());
    world.serve(&b());
    let root = world.speak(&agent(&a()), Place::New, Caller::default()).expect("opened");
    let open = speak_referring(&mut world, &b(), Caller::default(), &root);
    let caller = world.carrying(chain(&[head()]), &head(), &agent(&b()));
    let bound = speak_referring(&mut world, &b(), caller, &root);
    let reader = world.reader();
    let see = |viewer: Option<PublicKey>| listed(&reader.tree(&root.thread, viewer).expect("known"));
    assert_eq!(see(None), [root.thread.clone(), open.thread.clone()]);
    assert_eq!(see(Some(stranger().public())), [root.thread.clone(), open.thread.clone()]);
    for party in [head(), b()] {
        assert!(see(Some(party.public())).contains(&bound.thread));
    }
}

#[test]
fn a_reference_grants_nothing_and_a_foreign_id_builds_nothing() {
    let mut world = World::new();
    world.serve(&a());
    world.serve(&b());
    let root = world.open(&a());
    let caller = world.carrying(chain(&[stranger()]), &stranger(), &agent(&b()));
    let grafted = speak_referring(&mut world, &b(), caller, &root);
    let tree = world.reader().tree(&root.thread, Some(head().public())).expect("known");
    assert!(tree.children.is_empty(), "a stranger's graft is not shown to the head");
    assert_eq!(world.view(&grafted.run).head, Some(stranger().public()));
    let mut said = utterance(&agent(&b()), Place::New, Caller::default());
    said.lineage = Lineage { reference: Some("task-1".into()), parent_run: Some("run_nonsense".into()) };
    let free = world.run(|w, now| w.speak(now, said)).expect("opened");
    assert!(world.reader().roots().expect("read").contains(&free.thread));
}

#[test]
fn lists_show_a_viewer_its_own_runs_and_nobody_nothing() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let mine = world.open(&a());
    let caller = world.carrying(chain(&[stranger()]), &stranger(), &to);
    let theirs = world.speak(&to, Place::New, caller).expect("opened");
    let caller = world.signing(&c(), &to);
    let bare = world.speak(&to, Place::New, caller).expect("opened");
    let nobody = world.speak(&to, Place::New, Caller::default()).expect("opened");
    let reader = world.reader();
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    let list = |viewer: Option<SigningKey>, filter: &RunFilter| {
        let page = reader.runs(&to, viewer.map(|key| key.public()), filter).expect("known");
        assert_eq!(page.total, page.runs.len());
        let mut runs = page.runs;
        runs.sort();
        runs
    };
    let sorted = |runs: &[&Opened]| {
        let mut runs: Vec<_> = runs.iter().map(|o| o.run.clone()).collect();
        runs.sort();
        runs
    };
    assert!(list(None, &filter).is_empty());
    assert_eq!(list(Some(head()), &filter), sorted(&[&mine]));
    assert_eq!(list(Some(stranger()), &filter), sorted(&[&theirs]));
    assert_eq!(list(Some(c()), &filter), sorted(&[&bare]), "an opener without a chain");
    assert_eq!(list(Some(a()), &filter), sorted(&[&mine, &theirs, &bare, &nobody]), "who serves them");
    assert!(list(Some(b()), &filter).is_empty());
    // A thread whose id is known is read like any known id.
    let one = RunFilter { thread: Some(nobody.thread.clone()), ..filter.clone() };
    assert_eq!(list(None, &one), sorted(&[&nobody]));
    let none = RunFilter { statuses: vec![Status::Completed], ..filter.clone() };
    assert!(list(Some(a()), &none).is_empty());
    // Pages: newest change first, without overlap, no number breaks them.
    let page = RunFilter { limit: 3, ..filter.clone() };
    let first = reader.runs(&to, Some(a().public()), &page).expect("known");
    let second =
        reader.runs(&to, Some(a().public()), &RunFilter { cursor: first.next.clone(), ..page }).expect("known");
    assert_eq!((first.runs.len(), first.total, second.runs.len(), second.next), (3, 4, 1, None));
    assert!(!first.runs.contains(&second.runs[0]));
    let wide = RunFilter { limit: usize::MAX, since: Some(u64::MAX), ..filter };
    assert!(reader.runs(&to, Some(a().public()), &wide).expect("known").runs.is_empty());
}

#[test]
fn under_reads_parties_a_list_of_a_bound_thread_is_empty_for_outsiders() {
    let mut world = World::with(Policy { reads: wikala_witness::ReadPolicy::Parties, ..Policy::default() });
    world.serve(&a());
    let opened = world.open(&a());
    let filter = RunFilter { thread: Some(opened.thread.clone()), limit: 10, ..RunFilter::default() };
    let count = |viewer: Option<SigningKey>| {
        world.reader().runs(&agent(&a()), viewer.map(|k| k.public()), &filter).expect("known").total
    };
    assert_eq!([count(None), count(Some(stranger())), count(Some(head()))], [0, 0, 1]);
}

/// The witness saw both edges: a chain handed on says whose work it is, without the
/// callee's word for it.
#[test]
fn a_chain_handed_on_is_lineage_without_a_reference() {
    let mut world = World::new();
    let link = world.serve(&a());
    world.serve(&b());
    let at_a = world.open(&a());
    let (_, handed) = world.offers().remove(0);
    world.verdict(link, &at_a.run, wikala_witness::Verdict::Accepted);
    let onward = delivered(&handed).extend(&a()).expect("a longer chain");
    let caller = world.carrying(onward, &a(), &agent(&b()));
    let at_b = world.speak(&agent(&b()), Place::New, caller).expect("opened");
    let tree = world.reader().operator_tree(&at_a.thread).expect("known");
    assert_eq!(tree.children.iter().map(|child| &child.thread).collect::<Vec<_>>(), [&at_b.thread]);
    assert_eq!(world.reader().tree(&at_a.thread, Some(head().public())).expect("known").children.len(), 1);
    assert!(world.reader().tree(&at_a.thread, None).expect("known").children.is_empty());
    // The identical chain delivered twice: whose work it is is not known, so nothing is said.
    let again = world.open(&a());
    let onward = delivered(&handed).extend(&a()).expect("a longer chain");
    let caller = world.carrying(onward, &a(), &agent(&b()));
    world.speak(&agent(&b()), Place::New, caller).expect("opened");
    assert_eq!(world.reader().operator_tree(&at_a.thread).expect("known").children.len(), 1);
    assert!(world.reader().operator_tree(&again.thread).expect("known").children.is_empty());
}
