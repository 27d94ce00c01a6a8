#!/bin/sh
# Puts a Kafka broker into .venv/kafka, for the tests of sinks and sources: its jars, fetched from Maven Central by the
# Ivy that comes with PySpark, and an empty log that is formatted for one node. Needs Java and a network, no root.
set -eu
cd "$(dirname "$0")/.."
version=4.3.1
home=.venv/kafka

if [ -e "$home/.ready-$version" ]; then
    exit 0
fi
echo "set-up: fetching Kafka $version into $home"
rm -rf "$home"
mkdir -p "$home/libs"
java=$(.venv/bin/python -c 'from millpond.spark.java import find_java; print(find_java().home)')/bin/java
spark=$(.venv/bin/python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
"$java" -cp "$spark/*" org.apache.ivy.Main -error -cache "$PWD/$home/ivy" \
    -dependency org.apache.kafka kafka_2.13 "$version" -confs default -types jar bundle \
    -retrieve "$PWD/$home/libs/[artifact]-[revision].[ext]" >"$home/fetched.txt" 2>&1 || {
    cat "$home/fetched.txt" >&2
    exit 1
}
rm -rf "$home/ivy" "$home/fetched.txt"

cat >"$home/format.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
log.dirs=$PWD/$home/formatted
EOF
"$java" -cp "$home/libs/*" kafka.tools.StorageTool format --config "$home/format.properties" \
    --cluster-id bWlsbHBvbmQtdGVzdHMtMQ >/dev/null 2>&1
touch "$home/.ready-$version"
