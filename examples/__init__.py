"""Runnable programs: `python -m examples.recommender`, `.kv_store`, `.word_count` and `.fraud_rules`."""
