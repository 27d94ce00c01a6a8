"""Transactional programs as users write them, each with rows that make its keys meet.

A bank, an inventory, a social graph and a matching engine. Each module has one program and `make_rows(seed, count)`.
Everything that undoing must cope with is in them: refusals and exceptions before, between and after changes, changes in
place, keys in lists, self-transfers and keys that are not there.
"""

from __future__ import annotations

from tests.fuzz.transactions.worlds import bank, inventory, matching, social

WORLDS = {"bank": bank, "inventory": inventory, "social": social, "matching": matching}
"""The modules by name."""
