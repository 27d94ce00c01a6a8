"""Whole runs of a program while things go wrong, from a seed: disks, tasks, sinks and drivers fail, die and come back.

The real rooms run (`engine/simulated.py`, epochs, state, storage) over a disk that is looked at through a faulty door.
Whatever happens, what is committed is always that of a whole number of batches, and when the faults stop, the run ends
as if there had been none: the state of plain Python, and every reply, each time the same.
"""
