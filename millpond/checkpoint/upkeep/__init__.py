"""Epochs that change the state as a whole: evolution of elements, and another number of instances.

In reading order: `evolving`, `rewriting`, `scratch`, `rescale`, `inheritance`, `merging`.
"""
