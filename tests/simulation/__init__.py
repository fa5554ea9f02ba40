"""A seeded simulator: the shipped protocol, driven in virtual time against all that networks and clocks can do.

`python -m tests.simulation --help` runs it by hand. Start reading at world.py; judge.py says what must hold, and
errands.py what must hold of each single call.
"""
