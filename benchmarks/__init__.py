"""Benchmarks: Millpond beside a plain Python loop and Spark's `transformWithState`, on the same files, checked."""
