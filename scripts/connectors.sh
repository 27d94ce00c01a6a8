#!/bin/sh
# Runs the tests that need Spark's connectors, on the newest Spark that has them all, in a virtual environment of its own:
#     sh scripts/connectors.sh [words for pytest]
# Jars come from Maven Central by Spark itself, and are kept in that environment.
set -eu
cd "$(dirname "$0")/.."

version=4.1.1
home=.venv/connectors
ready=$home/.ready

if [ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ]; then
    echo "connectors: setting up Spark $version in $home"
    .venv/bin/python -m venv "$home"
    "$home/bin/python" -m pip --quiet --disable-pip-version-check install --no-compile \
        --editable '.[versions,kafka]' "pyspark==$version"
    touch "$ready"
fi
sh scripts/kafka.sh

# Of the environment outside nothing is found here, not even Java if it came as a package; so it is named.
JAVA_HOME=$(.venv/bin/python -c 'from millpond.spark.java import find_java; print(find_java().home)')
export JAVA_HOME
MILLPOND_TEST_IVY=$PWD/$home/ivy PYTHONHASHSEED=0 "$home/bin/python" -m pytest -q -m "spark and not campaign" \
    -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests/connectors "$@"
