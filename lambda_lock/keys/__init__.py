"""Builds the lock's key from a call's arguments, for decorators and batches.

All of this is private. `payload_hash` is public as ``lambda_lock.payload_hash``.

The modules, lowest first: `parameters` finds an argument in a call. `values` turns it into text. `separator` keeps
several texts apart. `template` and `jmespath` say where each value comes from. `compile` decides which of these a
``key=`` is. `payload_hash` hashes what an event contains.
"""
