#!/bin/sh
# Makes .venv with Millpond and its tools in it, and a Java if the machine has none that Spark can use.
set -eu
cd "$(dirname "$0")/.."

suits() {
    "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if ! suits .venv/bin/python; then
    for python in python3 python3.13 python3.12 python3.11 none; do
        suits "$python" && break
    done
    if [ "$python" = none ]; then
        echo "set-up: no Python 3.11 or newer with the venv module was found as python3 or python3.1x." >&2
        echo "        Install one (on Debian: python3 and python3-venv) and run make again." >&2
        exit 1
    fi
    echo "set-up: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi

pip() {
    .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"
}

echo "set-up: installing Millpond and its tools into .venv"
pip install --editable '.[dev]'

if ! .venv/bin/python -c 'from millpond.runtime.spark.java import find_java; find_java()' 2>/dev/null; then
    echo "set-up: no Java 17 or newer was found; installing one into .venv"
    pip install --editable '.[java]'
    .venv/bin/python -c 'from millpond.runtime.spark.java import find_java; find_java()'
fi

sh scripts/browser.sh || echo "set-up: no browser could be installed; pages are tested without one" >&2
