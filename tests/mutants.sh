#!/usr/bin/env bash
# Takes every guard of the record away, one at a time, in a copy of the libraries, and
# expects the record's tests to turn red. Prints `guard | file | result`:
#   red     a test noticed
#   GREEN   nobody noticed: the guard is untested
#   second  nobody noticed, and nobody can while one writer holds the transaction: another
#           statement of the same verb asks the same. Kept for a store with
#           concurrent writers; marked with `+` below
#   stale   the line is not there any more: mend this list
# Not part of all.sh: each line is a build. Usage: tests/mutants.sh [pattern of names]
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target}
export RUST_BACKTRACE=0

cp -r chain certs witness Cargo.lock "$copy"
mkdir -p "$copy/doors/src" "$copy/tests"
cp -r tests/harness tests/record "$copy/tests"
# The record needs no doors: a package of the same name, without them, builds in seconds.
sed -e '/^\[profile/,$d' Cargo.toml >"$copy/Cargo.toml"
printf '[profile.dev]\nopt-level = 0\ndebug = false\n[profile.dev.package."*"]\nopt-level = 2\n' >>"$copy/Cargo.toml"
printf 'mod harness;\nmod record;\n' >"$copy/tests/main.rs"
: >"$copy/doors/src/lib.rs"
cat >"$copy/doors/Cargo.toml" <<'TOML'
[package]
name = "wikala-doors"
version = "0.1.0"
edition = "2024"
[dependencies]
wikala-chain.workspace = true
wikala-certs.workspace = true
wikala-witness.workspace = true
rand.workspace = true
serde_json.workspace = true
sha2.workspace = true
curve25519-dalek.workspace = true
tempfile.workspace = true
[[test]]
name = "wikala"
path = "../tests/main.rs"
TOML

run() { # run LIMIT_S [libtest arguments]: the tests, without the noise
  (cd "$copy" && timeout "$1" cargo test --offline --quiet -p wikala-doors --test wikala record:: -- "${@:2}" >"$copy/log" 2>&1)
}
# The quick tests first; the long ones only for what they did not notice.
noticed() {
  ! run 300 --skip races --skip simulation || ! run 300 races simulation
}
if ! run 900; then
  tail -30 "$copy/log"
  echo "mutants: the tests must be green before anything is taken away" >&2
  exit 1
fi

green=0
printf '%-52s | %-32s | %s\n' guard file result
while IFS='~' read -r guard file edit; do
  [[ -z $guard || $guard == \#* ]] && continue
  [[ -n ${1:-} && ! $guard =~ $1 ]] && continue
  # Several files, parted by commas, lose one guard together.
  IFS=, read -ra files <<<"$file"
  changed=1
  for each in "${files[@]}"; do
    cp "$copy/$each" "$copy/$each.kept"
    sed -i -e "$edit" "$copy/$each"
    if cmp -s "$copy/$each.kept" "$copy/$each"; then changed=0; fi
  done
  if [[ $changed == 0 ]]; then
    result=stale green=1
  elif ! noticed; then
    if [[ $guard == +* ]]; then result=second; else result=GREEN green=1; fi
  elif grep -q '^error: could not compile' "$copy/log"; then
    result="stale (does not compile)" green=1
  else
    result="red: $(grep -m1 -o 'record::[a-z_:0-9]*' "$copy/log" || echo timeout)"
  fi
  for each in "${files[@]}"; do cp "$copy/$each.kept" "$copy/$each"; done
  printf '%-52s | %-32s | %s\n' "${guard#+}" "$file" "$result"
done <<'LIST'
authority: an answer's set~witness/src/ask.rs~s/act.stand(case.set, acting)/act.stand(\&AuthoritySet::open(), acting)/
authority: a cancel's set~witness/src/stop.rs~s/act.stand(set, acting)/act.stand(\&wikala_certs::AuthoritySet::open(), acting)/
authority: an answer's run~witness/src/ask.rs~s/if act.run() != run.id.as_str()/if false/
authority: a cancel's run~witness/src/stop.rs~s/Some(act) if act.run() != run.id.as_str()/Some(act) if false \&\& act.run().is_empty()/
authority: an answer without an act~witness/src/ask.rs~s/let open = case.set.is_open();/let open = true;/
authority: a cancel without an act~witness/src/stop.rs~s/None if set.is_open() =>/None if true =>/
authority: copied set wins over the thread's~witness/src/ask.rs~s/let head = thread.head.or(run.head)?;/let head = run.head?;/
authority: raw keys resolve in sets~witness/src/caller.rs~s/members.push(self.resolve(key)?);/members.push(key);/
authority: outsiders before state~witness/src/ask.rs~s/if !self.store.is_member(thread, agent.provider, &who)? {/if false {/
authority: bound to its asks~witness/src/ask.rs~s/Some(asks) => same_asks(&open, asks).and_then(|()| cover(&open, reply)),/Some(_) => cover(\&open, reply),/
authority: the door of another agent~witness/src/ask.rs~s/if door.is_some_and(|door| \*door != agent.id) {/if false \&\& door.is_some() {/
membership: somebody presents~witness/src/caller.rs~s/let Some(presenter) = who.presenter else { return Ok(false) };/let Some(presenter) = who.presenter else { return Ok(true) };/
membership: the same segment~witness/src/caller.rs~s/Ok(same_segment && (/Ok((true || same_segment) \&\& (/
membership: the presenter belongs to it~witness/src/caller.rs~s/Ok(same_segment && (/Ok(same_segment \&\& (true || /
membership: checked at all~witness/src/dispatch.rs~s/&& !self.store.is_member(thread, address.provider, &who)?/\&\& false/
membership: the thread is this agent's~witness/src/dispatch.rs~s/Some(row) if row.agent == agent.row => Ok(row),/Some(row) if row.agent == agent.row || true => Ok(row),/
membership: a binding is immutable (WHERE)~witness/src/store/threads.rs~s/WHERE id = :id AND birth IS NULL/WHERE id = :id/
presenter: the raw last hop~witness/src/caller.rs~s/if tail != signer =>/if false \&\& tail != signer =>/
presenter: required~witness/src/caller.rs~s/match self.policy.presenter {/match PresenterPolicy::Optional {/
presenter: spent before fresh~witness/src/caller.rs~s/if self.store.was_presented(signer, digest)? {/if false \&\& self.store.was_presented(signer, digest)? {/
+presenter: spent (row count)~witness/src/caller.rs~s/if !self.store.spend_presenter(presented.signer(), presented.digest(), at)? {/self.store.spend_presenter(presented.signer(), presented.digest(), at)?; if false {/
presenter: the watermark~witness/src/caller.rs~s/if at < self.presented_watermark()? {/if false {/
presenter: only a proved one is an opener~witness/src/dispatch.rs~s/if who.proved { who.presenter } else { None }/who.presenter/
presenter: an expired delegate~witness/src/caller.rs~s/self.acting_for(now, Some(key), None, None)?;/let _ = key;/
consent: to be recorded~witness/src/caller.rs~s/if known.is_none() && !certificate.accepted() && !consented.by_request {/if false {/
consent: on a chain~witness/src/caller.rs~s/if !self.record_if_consented(now, consented)? {/self.record_if_consented(now, consented)?; if false {/
consent: ahead~witness/src/caller.rs~s/if !self.record_if_consented(now, certificate)? {/self.record_if_consented(now, certificate)?; if false {/
consent: of the key that signed~witness/src/caller.rs~s/if !signed.contains(&Some(delegate)) {/if false \&\& signed.is_empty() {/
consent: never rebound~witness/src/caller.rs~s/is_some_and(|row| row.authority != acting.authority())/is_some_and(|row| false \&\& row.authority != acting.authority())/
consent: never rebound (WHERE)~witness/src/store/threads.rs~s/WHERE authority = excluded.authority/WHERE true/
consent: one level (WHERE)~witness/src/store/threads.rs~s/WHERE other.authority = :delegate OR other.delegate = :authority/WHERE false/
consent: live~certs/src/delegation.rs~s/if late > 0 {/if false {/
freshness: the window's end~certs/src/moment.rs~s/abs_diff(signed_at) <= WINDOW_S/abs_diff(signed_at) < WINDOW_S/
freshness: the window's width~certs/src/moment.rs~s/abs_diff(signed_at) <= WINDOW_S/abs_diff(signed_at) <= WINDOW_S + 1/
freshness: of acts~certs/src/act.rs~s/if !is_fresh(now, self.timestamp()) {/if false {/
freshness: of presenters~certs/src/presenter.rs~s/if !is_fresh(now, self.timestamp) {/if false {/
spent: acts~witness/src/store/acts.rs~s/WHERE digest = :digest AND (authority = :authority OR signer = :signer)/WHERE digest = :digest AND :authority IS NULL AND :signer IS NULL/
spent: under the signer too~witness/src/store/acts.rs~s/AND (authority = :authority OR signer = :signer)/AND (authority = :authority OR (false AND signer = :signer))/
spent: the same request names the same asks~witness/src/ask.rs~s/if case.reply.items.iter().all(/if true || case.reply.items.iter().all(/
spent: the same request has the same answer~witness/src/ask.rs~s/if spent.answer_digest == Some(case.digest) {/if true {/
spent: a cancel, by round~witness/src/stop.rs~s/spent.run == \*run && spent.leg == leg/spent.run == *run \&\& (true || spent.leg == leg)/
+spent: an answer (row count)~witness/src/ask.rs~s/if !self.store.spend(authority, signer, digest, &on, now)? {/self.store.spend(authority, signer, digest, \&on, now)?; if false {/
spent: tickets~witness/src/store/acts.rs~s/INSERT INTO ticket (ticket, burned_at) VALUES (:ticket, :now) ON CONFLICT DO NOTHING/INSERT OR REPLACE INTO ticket (ticket, burned_at) VALUES (:ticket, :now)/
segment: unbound children of bound nodes~witness/src/lineage.rs~s/if parent.head.is_none() && child.head.is_none() {/if child.head.is_none() {/
segment: bound children of unbound nodes~witness/src/lineage.rs~s/if parent.head.is_none() && child.head.is_none() {/if parent.head.is_none() {/
segment: names in onward~witness/src/lineage.rs~s/&& self.is_party_of(&thread, viewer)?/\&\& true/
segment: no run is its own onward~witness/src/store/reads.rs~s/WHERE opened > :from AND opened < :to/WHERE opened >= :from AND opened < :to/
segment: the window begins~witness/src/store/reads.rs~s/WHERE opened > :from AND opened < :to/WHERE :from > 0 AND opened < :to/
segment: the window ends~witness/src/store/reads.rs~s/WHERE opened > :from AND opened < :to/WHERE opened > :from AND :to > 0/
segment: reads of parties~witness/src/lineage.rs~s/if !actor {/if false {/
segment: runs of parties~witness/src/read.rs~s/if self.policy.reads == ReadPolicy::Parties {/if false {/
segment: lists of a viewer~witness/src/store/reads.rs~s/AND (:is_provider = 1 OR :viewer IS NULL/AND (true OR :is_provider = 1 OR :viewer IS NULL/
segment: histories of who serves them~witness/src/read.rs~s/if agent.id.provider != provider {/if false {/
segment: aliases of nobody~witness/src/dispatch.rs~s/if head.is_none() && presenter.is_none() && !is_random_uuid(name) {/if false \&\& !is_random_uuid(name) {/
segment: aliases by presenter~witness/src/dispatch.rs~s/text(head), text(presenter)/text(head), text(head.and(None).or(presenter.and(None)))/
segment: a hop walked past~witness/src/dispatch.rs~s/&& self.walks_past_us(chain)?/\&\& false/
+state: reopen (WHERE)~witness/src/store/runs.rs~s/WHERE id = :id AND status = 'input-required' AND leg = :leg/WHERE id = :id AND :leg >= 0/
state: claim, offered (WHERE)~witness/src/store/runs.rs~/fn claim/,/^    }/s/AND status = 'offering' AND link = :link/AND link = :link/
state: claim, this link (WHERE)~witness/src/store/runs.rs~/fn claim/,/^    }/s/AND status = 'offering' AND link = :link/AND status = 'offering' AND :link > 0/
state: requeue, offered (WHERE)~witness/src/store/runs.rs~/fn requeue/,/^    }/s/AND status = 'offering' AND link = :link/AND (link = :link OR status = 'failed')/
state: requeue, this link (WHERE)~witness/src/store/runs.rs~/fn requeue/,/^    }/s/AND status = 'offering' AND link = :link/AND status = 'offering' AND :link > 0/
+state: offer (WHERE)~witness/src/store/runs.rs~/fn offer(/,/^    }/s/ AND status = 'queued'//
+state: pause (WHERE)~witness/src/store/runs.rs~/fn pause/,/^    }/s/ AND status IN ('running', 'cancelling')//
+state: go on (WHERE)~witness/src/store/runs.rs~/fn go_on/,/^    }/s/ AND status = 'input-required'//
state: request a cancel (WHERE)~witness/src/store/runs.rs~/fn request_cancel/,/^    }/s/ AND status IN ('offering', 'running', 'cancelling')//
+state: end (WHERE)~witness/src/store/runs.rs~/fn end(/,/^    }/s/AND CASE :status/AND :status <> '' OR false AND CASE :status/
state: hear, under way (WHERE)~witness/src/store/runs.rs~/fn hear/,/^    }/s/AND status IN ('running', 'cancelling')//
+state: hear, this link (WHERE)~witness/src/store/runs.rs~/fn hear/,/^    }/s/AND held = 1 AND (lease_until IS NOT NULL OR link = :link)/AND held = 1/
state: take over, held (WHERE)~witness/src/store/runs.rs~/fn take_over/,/^    }/s/AND held = 1 AND (lease_until IS NOT NULL OR link = :link)/AND (true OR link = :link)/
+state: end a lease (WHERE)~witness/src/store/runs.rs~/fn end_lease/,/^    }/s/ AND lease_until IS NOT NULL AND lease_until <= :now/ AND :now > 0/
state: leases that ran out (WHERE)~witness/src/store/runs.rs~/fn ended_leases/,/^    }/s/lease_until <= :now/lease_until < :now/
state: silent offers (WHERE)~witness/src/store/runs.rs~/fn silent_offers/,/^    }/s/offered_at <= :before/offered_at < :before/
state: one active run a thread (WHERE)~witness/src/store/runs.rs~s/AND (NOT EXISTS (SELECT 1 FROM run AS active/AND (true OR NOT EXISTS (SELECT 1 FROM run AS active/
state: retry (WHERE)~witness/src/store/runs.rs~/fn next_offer/,/^    }/s/AND q.retry_at <= :now/AND q.retry_at <= :now + 1/
state: a closed link has no say (WHERE)~witness/src/store/agents.rs~/fn link_provider/,/^    }/s/ AND detached_at IS NULL//
state: closing a link once (WHERE)~witness/src/store/agents.rs~/fn close_link/,/^    }/s/ AND detached_at IS NULL//
state: a name with history (WHERE)~witness/src/store/agents.rs~s/AND NOT EXISTS (SELECT 1 FROM thread WHERE thread.agent = agent.id)//
state: reopen and the ask's closing together (WHERE)~witness/src/store/runs.rs,witness/src/store/asks.rs~s/WHERE id = :id AND status = 'input-required' AND leg = :leg/WHERE id = :id AND :leg >= 0/;s/ AND ordinal = :ordinal AND closed_at IS NULL/ AND ordinal = :ordinal/
state: closing an ask once (WHERE)~witness/src/store/asks.rs~s/ AND ordinal = :ordinal AND closed_at IS NULL/ AND ordinal = :ordinal/
state: numbered words come once~witness/src/run.rs~s/if seq.is_some_and(|seq| seq <= run.link_seq) {/if false {/
state: only the claimer speaks~witness/src/run.rs~s/if agent.id.provider != provider {/if false {/
state: an offline agent keeps its ask~witness/src/ask.rs~s/if ask.closed_at.is_none() && !self.is_online(&agent, now) {/if false {/
state: the queue's limit~witness/src/dispatch.rs~s/waiting_for_a_turn(&thread.id)? >= QUEUE_LIMIT/waiting_for_a_turn(\&thread.id)? > QUEUE_LIMIT/
state: offers at once~witness/src/queue.rs~s/if self.store.offers_out(link)? >= OFFERS_AT_ONCE {/if false {/
state: a stop asked for again~witness/src/stop.rs~s/&& self.store.asked_to_stop(&run.id, by.authority)?/\&\& false/
state: one active though it goes on (WHERE)~witness/src/store/runs.rs~/fn go_on/,/^    }/s/active.id <> run.id/active.id <> run.id AND false/
state: an agent's queue~witness/src/dispatch.rs~s/waiting_at_agent(agent.row)? >= AGENT_QUEUE/waiting_at_agent(agent.row)? > AGENT_QUEUE/
state: calls left open~witness/src/run.rs~s/unanswered_calls(id)?.len() > ASK_ITEMS/unanswered_calls(id)?.len() > ASK_ITEMS + 1/
state: a run's bytes~witness/src/run.rs~s/if said > RUN_BYTES {/if said > RUN_BYTES + 1024 {/
state: names a key holds~witness/src/link.rs~s/if self.store.agents_of(provider)? > AGENTS_A_KEY {/if self.store.agents_of(provider)? > 9 * AGENTS_A_KEY {/
state: a call told again (WHERE)~witness/src/store/asks.rs~s/ON CONFLICT (run, id) DO NOTHING/ON CONFLICT (run, id) DO UPDATE SET answered = 0/
state: our own stall~witness/src/queue.rs~s/Ok(self.store.postpone(seconds)?)/Ok(self.store.postpone(seconds - seconds)?)/
segment: a chain delivered once~witness/src/dispatch.rs~s/\[one\] => Ok(Some(one.clone())),/[one, ..] => Ok(Some(one.clone())),/
state: the link's capacity~witness/src/queue.rs~s/load_on_link(link)? >= capacity/load_on_link(link)? > capacity/
state: a silent offer stands once~witness/src/queue.rs~s/&& self.back_to_queue(now, &run, link, at + RETRY_S)?/\&\& { self.back_to_queue(now, \&run, link, at + RETRY_S)?; true }/
LIST
exit "$green"
