#!/usr/bin/env bash
# Installs the real clients and peers of the tests into ignored folders: two virtual
# environments and one node_modules. Quick when nothing has changed.
set -euo pipefail
cd "$(dirname "$0")"
out=../.clients
mkdir -p "$out"

venv() { # NAME REQUIREMENTS [EXTRA PIP ARGUMENTS...]
  local name=$1 file=$2
  shift 2
  if ! cmp -s "$file" "$out/$name/.installed"; then
    rm -rf "${out:?}/$name"
    python3 -m venv "$out/$name"
    "$out/$name/bin/pip" install --quiet --disable-pip-version-check -r "$file"
    if [ "$#" -gt 0 ]; then
      "$out/$name/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python "$@"
    fi
    cp "$file" "$out/$name/.installed"
  fi
}

venv python python/requirements.txt
venv reference python/reference.txt funduq-provider-sdk==0.0.6 funduq-contract==0.0.8

if ! cmp -s node/package-lock.json "$out/node/.installed"; then
  rm -rf "$out/node"
  mkdir -p "$out/node"
  cp node/package.json node/package-lock.json "$out/node/"
  (cd "$out/node" && npm ci --silent --no-audit --no-fund)
  cp node/package-lock.json "$out/node/.installed"
fi
cp node/*.mjs "$out/node/"
