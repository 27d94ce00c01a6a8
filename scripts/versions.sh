#!/bin/sh
# Runs the main paths on one minor version of Spark, in a virtual environment of its own below .venv/versions:
#     sh scripts/versions.sh 4.1 [words for pytest]
set -eu
cd "$(dirname "$0")/.."

version=$1
shift
home=.venv/versions/$version
ready=$home/.ready

if [ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ]; then
    echo "versions: setting up Spark $version in $home"
    .venv/bin/python -m venv "$home"
    "$home/bin/python" -m pip --quiet --disable-pip-version-check install \
        --editable '.[versions]' "pyspark[connect]==$version.*"
    touch "$ready"
fi

# Of the environment outside nothing is found here, not even Java if it came as a package; so it is named.
JAVA_HOME=$(.venv/bin/python -c 'from millpond.spark.java import find_java; print(find_java().home)')
export JAVA_HOME
"$home/bin/python" -c 'import pyspark; print(f"versions: Spark {pyspark.__version__}")'

run() {
    # Older versions of PySpark leave the sockets of finished jobs to the garbage collector, which Python warns of.
    "$home/bin/python" -m pytest -q -m "spark and not campaign" \
        -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests/spark/test_versions.py "$@"
}

# Its connectors are fetched by their coordinates, and must load together.
"$home/bin/python" scripts/connectors.py

run "$@"
MILLPOND_TEST_CONNECT=1 run "$@"
