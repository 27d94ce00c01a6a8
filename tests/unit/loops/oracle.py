"""Supersteps as plain as they can be written: no contexts, no conditions, no boxes; a function for each key and round.

It shares nothing with the room that it judges but the order in which senders come, which a test gives it.
"""

from __future__ import annotations


def supersteps(keys, entry, step, over, order):
    """Run strict rounds; return the states by key, and the number of rounds.

    `entry(key)` gives a state and what is sent, `step(key, state, messages, round)` the same or a state of None for
    none. What is sent are pairs of key and message. `over(round, sent)` is asked after every round.
    """
    states, sent = {}, []
    for key in sorted(keys, key=order):
        states[key], out = entry(key)
        sent += out
    number = 0
    while sent and not over(number, sent):
        number += 1
        inbox = {}
        for target, message in sent:
            inbox[target] = [*inbox.get(target, []), message]
        sent = []
        for key in sorted(inbox, key=order):
            new, out = step(key, states.get(key), inbox[key], number)
            if new is not None:
                states[key] = new
            sent += out
    return states, number
