"""Replies as rows of tables: PostgreSQL, Delta and Iceberg, each exactly once by the transactions of the table itself.

In reading order: `rows`, `jdbc`, `marks`, `delta`, `iceberg`.
"""
