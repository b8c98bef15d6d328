#!/usr/bin/env bash
# The README's test command: everything that must hold, from a fresh clone.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

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
step "tests"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --locked
  cargo test --doc --workspace --locked
else
  cargo test --workspace --locked
fi
