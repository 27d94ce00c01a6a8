"""Epochs: the commit protocol, what a checkpoint holds, and how state is found again."""
