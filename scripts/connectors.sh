#!/bin/sh
# Runs the tests that need Spark's connectors, on a version of Spark in an environment of its own:
#     sh scripts/connectors.sh 4.1.1 [words for pytest]
# Jars come from Maven Central, by the Ivy that comes with PySpark; those that it does not have are named, and their tests
# left out.
set -eu
cd "$(dirname "$0")/.."

version=$1
shift
minor=${version%.*}
home=.venv/connectors/$version
ready=$home/.ready
# Of the environment outside nothing is found there, not even Java if it came as a package; so it is named.
JAVA_HOME=$(.venv/bin/python -c 'from millpond.spark.java import find_java; print(find_java().home)')
export JAVA_HOME

fetch() {
    "$JAVA_HOME/bin/java" -cp "$jars/*" org.apache.ivy.Main -error -notransitive -cache "$PWD/$home/ivy" \
        -dependency "$1" "$2" "$3" -confs master -types jar bundle \
        -retrieve "$PWD/$home/fetched/[artifact]-[revision].[ext]" >/dev/null 2>&1
    [ -e "$home/fetched/$2-$3.jar" ]
}

if [ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ]; then
    echo "connectors: setting up Spark $version in $home"
    .venv/bin/python -m venv "$home"
    "$home/bin/python" -m pip --quiet --disable-pip-version-check install --no-compile \
        --editable '.[versions,kafka]' "pyspark==$version"
    jars=$("$home/bin/python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
    found() { fetch "$@" || echo "connectors: Maven has no $2 $3; its tests are left out"; }
    provider=spark-token-provider-kafka-0-10_2.13
    fetch org.apache.spark spark-sql-kafka-0-10_2.13 "$version"
    # Some copies of Maven Central lack it for the newest versions; it has not changed since.
    fetch org.apache.spark "$provider" "$version" || fetch org.apache.spark "$provider" 4.0.0
    fetch org.apache.kafka kafka-clients 3.9.1
    fetch org.apache.commons commons-pool2 2.12.1
    found org.apache.spark spark-avro_2.13 "$version"
    found io.delta "delta-spark_${minor}_2.13" 4.4.0
    found io.delta delta-storage 4.4.0
    found org.apache.iceberg "iceberg-spark-runtime-${minor}_2.13" 1.12.0
    cp "$home"/fetched/*.jar "$jars"
    rm -rf "$home/ivy" "$home/fetched"
    touch "$ready"
fi
sh scripts/kafka.sh

MILLPOND_TEST_CONNECTORS=1 PYTHONHASHSEED=0 "$home/bin/python" -m pytest -q -m "spark and not campaign" \
    -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests/connectors "$@"
