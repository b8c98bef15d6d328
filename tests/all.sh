#!/usr/bin/env bash
# The README's test command: everything that must hold, from a fresh clone. Needs a
# Rust toolchain, a C compiler, Python 3 with venv and Node 20; installs pinned PyPI
# and npm packages into tests/.clients. `--soak`: 50 crash rounds instead of 10.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --soak ]; then export WIKALA_SOAK=1; fi

step() { printf '\n== %s\n' "$*"; }

step "real clients and peers"
tests/clients/setup.sh
step "format"
cargo fmt --all --check
step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings
step "documentation"
RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked
step "licences, bans, sources"
if cargo deny --version >/dev/null 2>&1; then
  cargo deny --offline check bans licenses sources
else
  echo "skipped: cargo-deny is not installed (cargo install cargo-deny --locked)"
fi
step "guards named in tests/mutants"
tests/mutants.sh stale
step "tests"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --locked --no-fail-fast
  cargo test --doc --workspace --locked
else
  cargo test --workspace --locked
fi
