#!/usr/bin/env bash
# Installs the real clients and peers of the tests into ignored folders: two virtual
# environments and two node_modules. Quick when nothing has changed.
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

packages() { # NAME: a folder with a package.json and its lock
  local name=$1
  if ! cmp -s "$name/package-lock.json" "$out/$name/.installed"; then
    rm -rf "${out:?}/$name"
    mkdir -p "$out/$name"
    cp "$name/package.json" "$name/package-lock.json" "$out/$name/"
    (cd "$out/$name" && npm ci --silent --no-audit --no-fund)
    cp "$name/package-lock.json" "$out/$name/.installed"
  fi
  cp "$name"/*.mjs "$out/$name/"
  [ "$name" = node ] || cp node/heads.mjs "$out/$name/"
}
packages node
# A runtime with the AG-UI client it ships, apart from the one above.
packages copilot
