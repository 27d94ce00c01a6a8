"""Windows of many keys at once, on whole columns, whose rows come in any order.

In reading order: `intake`, `corrections`, `vectorised`, `blocks`, `ordering`, `columnsessions`.
"""
