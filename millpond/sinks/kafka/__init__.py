"""Replies as records of a Kafka topic, in transactions that also hold the tokens of their files.

In reading order: `sink`, `records`, `transactions`, `tokenlog`, `failures`.
"""
