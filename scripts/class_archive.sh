#!/bin/sh
# Writes the classes that Spark loads to .venv/spark.jsa, as a JVM has them in memory once it has read and verified
# them. Tests start dozens of JVMs, and each would spend a third of its life on that. Without the file, or with one that
# does not suit, as after another Java was installed, a JVM does as ever.
set -eu
cd "$(dirname "$0")/.."
archive=$PWD/.venv/spark.jsa

echo "set-up: keeping what Spark loads for the JVMs of tests"
rm -f "$archive" "$archive.part"
# The JVM writes the file when it ends, after Python has ended: cat waits for both.
SPARK_SUBMIT_OPTS="\"-XX:ArchiveClassesAtExit=$archive.part\" -Xlog:disable" \
    .venv/bin/python -m examples.recommender --ratings 500 2>&1 | cat >/dev/null
if [ -s "$archive.part" ]; then
    mv "$archive.part" "$archive"
else
    echo "set-up: this Java keeps no classes; its JVMs start as ever" >&2
fi
