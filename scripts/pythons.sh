#!/bin/sh
# Runs a small size of the tests and the main paths on Spark with another Python, in an environment of its own below
# .venv/pythons; one that is not on hand is named and left out:
#     sh scripts/pythons.sh 3.12 [words for pytest]
set -eu
cd "$(dirname "$0")/.."

version=$1
shift
home=.venv/pythons/$version
ready=$home/.ready

suits() {
    [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]
}

if [ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ]; then
    found=
    for python in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
        if suits "$python"; then
            found=$python
            break
        fi
    done
    if [ -z "$found" ]; then
        echo "pythons: Python $version is not on hand; left out"
        exit 0
    fi
    echo "pythons: setting up Python $version in $home"
    "$found" -m venv "$home"
    "$home/bin/python" -m pip --quiet --disable-pip-version-check install --no-compile --editable '.[dev]'
    touch "$ready"
fi

JAVA_HOME=$(.venv/bin/python -c 'from millpond.spark.java import find_java; print(find_java().home)')
export JAVA_HOME
"$home/bin/python" --version
MILLPOND_TEST_SMALL=1 PYTHONHASHSEED=0 "$home/bin/python" -m pytest -q -n 2 --dist worksteal \
    -m "not spark and not slow and not campaign" tests/unit "$@"
PYTHONHASHSEED=0 "$home/bin/python" -m pytest -q -m "spark and not campaign" tests/spark/test_versions.py "$@"
