#!/bin/sh
# Puts actionlint into .venv/actionlint, for the test of the workflows; needs Go, no root. Without it that test is skipped.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/actionlint

if [ -x "$folder/actionlint" ]; then
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "actionlint: no Go; workflows are not checked" >&2
    exit 0
fi
echo "actionlint: installing it into $folder"
GOBIN="$(pwd)/$folder" GOFLAGS=-modcacherw go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
