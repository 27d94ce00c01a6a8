#!/bin/sh
# Puts Azure's storage emulator into .venv/azurite, for the tests of checkpoints in Azure; needs npm and node, no root.
# It is large (360 MB), so set-up leaves it out: run this once, then `pytest tests/contract`.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/azurite

if [ -x "$folder/node_modules/.bin/azurite-blob" ]; then
    exit 0
fi
echo "azurite: installing into $folder"
mkdir -p "$folder"
cd "$folder"
npm install --silent --no-audit --no-fund azurite@3.37.0
