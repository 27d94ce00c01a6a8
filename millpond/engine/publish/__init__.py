"""What leaves an epoch: files of replies and dead letters, visible after the commit.

In reading order: `publish`, `staging`, `replies`, `deadletters`.
"""
