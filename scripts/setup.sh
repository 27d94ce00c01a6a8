#!/bin/sh
# Makes .venv with Millpond in it, and a Java if the machine has none that Spark can use; with the word `dev` also what
# the tests need.
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

# Modules are compiled when they are first imported; most of what is installed never is.
install() {
    .venv/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --editable "$1"
}

if [ "${1:-}" = dev ]; then
    echo "set-up: installing Millpond and the tools of its tests into .venv"
    install '.[dev]'
else
    echo "set-up: installing Millpond into .venv"
    install .
fi

if ! .venv/bin/python -c 'from millpond.spark.java import find_java; find_java()' 2>/dev/null; then
    echo "set-up: no Java 17 or newer was found; installing one into .venv"
    install '.[java]'
    .venv/bin/python -c 'from millpond.spark.java import find_java; find_java()'
fi

[ "${1:-}" = dev ] || exit 0
sh scripts/browser.sh || echo "set-up: no browser could be installed; pages are tested without one" >&2
sh scripts/kafka.sh || echo "set-up: no Kafka broker could be fetched; its tests are skipped" >&2
sh scripts/actionlint.sh || echo "set-up: actionlint could not be installed; workflows are not checked" >&2
