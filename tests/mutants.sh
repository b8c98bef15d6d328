#!/usr/bin/env bash
# Takes the guards away, one at a time, in a copy of the tree, and expects the tests to
# turn red. `tests/mutants/{bytes,record,doors}.list` name them: `guard~file[,file]~sed
# edit`. Prints `guard | file | result`:
#   red     a test noticed
#   GREEN   nobody noticed: the guard is untested
#   second  nobody noticed, and nobody can while one writer holds the transaction: another
#           statement of the same verb asks the same. Kept for a store with
#           concurrent writers; marked with `+` in the list
#   stale   the line is not there any more: mend the list
# Each line is a build, so all.sh only asks that no line is stale.
# Usage: tests/mutants.sh bytes|record|doors [pattern of names]
#        tests/mutants.sh stale
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
suite=${1:-}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export RUST_BACKTRACE=0

# change LIST-LINE'S-FILES EDIT: a guard is gone from the copy, or 1 if the edit finds none.
change() {
  local each
  IFS=, read -ra files <<<"$1" # several files, parted by commas, lose one guard together
  for each in "${files[@]}"; do
    cp "$copy/$each" "$copy/$each.kept"
    sed -i -e "$2" "$copy/$each"
    if cmp -s "$copy/$each.kept" "$copy/$each"; then return 1; fi
  done
}
restore() {
  local each
  for each in "${files[@]}"; do
    if [ -e "$copy/$each.kept" ]; then mv "$copy/$each.kept" "$copy/$each"; fi
    touch "$copy/$each" # or cargo would keep what was built without the guard
  done
}
tar c --exclude=./target --exclude=./.git --exclude=./tests/.clients . | tar xm -C "$copy" # as of now: cargo must build it anew
# Some guards only real clients notice.
if [ -d tests/.clients ]; then ln -s "$here/tests/.clients" "$copy/tests/.clients"; fi

if [ "$suite" = stale ]; then
  stale=0
  while IFS='~' read -r guard file edit; do
    change "$file" "$edit" || { echo "stale: $guard | $file"; stale=1; }
    restore
  done < <(cat tests/mutants/*.list)
  echo "mutants: $(cat tests/mutants/*.list | wc -l) guards on the lists, $([ $stale = 0 ] && echo "none stale" || echo "some stale")"
  exit $stale
fi

# Our own code without optimisation: these builds are run once.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target/mutants}
sed -i -e '/^\[profile/,$d' "$copy/Cargo.toml"
printf '[profile.dev]\nopt-level = 0\ndebug = false\n[profile.dev.package."*"]\nopt-level = 2\n' >>"$copy/Cargo.toml"
quick() { # the quick tests of a suite first
  case $suite in
  bytes) run 300 -p wikala-chain -p wikala-certs --tests ;;
  record) run 300 -p wikala-doors --test wikala -- record:: --skip races --skip simulation ;;
  doors) run 300 -p wikala-doors --lib && run 300 -p wikala-witness --lib && run 300 -p wikala-doors --test wikala -- house:: link::handshake obligations:: refusals:: schemas:: ;;
  esac
}
long() { # only for what those did not notice
  case $suite in
  bytes) run 300 -p wikala-chain -p wikala-certs --doc ;;
  record) run 300 -p wikala-doors --test wikala -- races simulation ;;
  doors) run 300 -p wikala-doors --test wikala -- a2a:: agui:: link:: upstream::c upstream::f upstream::r cli::answering cli::owed cli::signing ;;
  esac
}
run() { # run LIMIT_S ARGUMENTS: without the noise
  (cd "$copy" && timeout "$1" cargo test --offline --quiet "${@:2}" >"$copy/log" 2>&1)
}
case $suite in
bytes | doors) ;;
record)
  # The record needs no doors: a package of the same name, without them, builds in seconds.
  rm -rf "$copy/doors" && mkdir -p "$copy/doors/src"
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
  ;;
*)
  sed -n 's/^# \(Usage:\)/\1/p;s/^#  \( *tests\/mutants.sh stale\)/\1/p' tests/mutants.sh >&2
  exit 2
  ;;
esac
if ! quick || ! long; then
  tail -30 "$copy/log"
  echo "mutants: the tests must be green before anything is taken away" >&2
  exit 1
fi

green=0
printf '%-52s | %-32s | %s\n' guard file result
while IFS='~' read -r guard file edit; do
  [[ -n ${2:-} && ! $guard =~ $2 ]] && continue
  if ! change "$file" "$edit"; then
    result=stale green=1
  elif quick && long; then
    if [[ $guard == +* ]]; then result=second; else result=GREEN green=1; fi
  elif grep -q '^error: could not compile' "$copy/log"; then
    result="stale (does not compile)" green=1
  else
    result="red: $(sed -nE 's/^test ([a-z_:0-9]+).* FAILED$/\1/p; s/^    ([a-z_:0-9]+)$/\1/p' "$copy/log" | grep -m1 . || echo timeout)"
  fi
  restore
  printf '%-52s | %-32s | %s\n' "${guard#+}" "$file" "$result"
done <"tests/mutants/$suite.list"
exit "$green"
