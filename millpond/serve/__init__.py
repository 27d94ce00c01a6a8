"""Answers from a checkpoint without Spark: a follower takes every committed epoch into its own store.

In reading order: `replica`, `noticing`, `entrypoints`, `followed`, `follower`. HTTP is a folder of its own.
"""
