"""Runnable programs: `python -m examples.recommender`, `.kv_store`, `.word_count` and `.fraud_rules` run on Spark.

Thirteen more show what a class may look like, and run as plain Python: `.bank`, `.baskets`, `.inventory`, `.matching`,
`.sessions`, `.shop`, `.kmeans`, `.regression`, `.trending`, `.rate_limiter`, `.search_index`, `.leaderboard` and
`.social_feed`.
"""
