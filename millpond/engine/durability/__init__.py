"""The durability levels beside a delta per epoch: input logs with replay, and bounded loss.

In reading order: `inputlog`, `replaying`, `boundedloss`, `setapart`, `pending`.
"""
