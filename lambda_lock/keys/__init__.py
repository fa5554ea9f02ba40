"""Builds the lock's key from a call's arguments, for decorators and batches.

All of this is private. `payload_hash` is public as ``lambda_lock.payload_hash``.

The modules, lowest first: `parameters` finds an argument in a call. `arguments` turns it into text, and makes keys from
templates. `jmespath` makes keys from expressions. `compile` decides which kind of key a ``key=`` is. `payload_hash`
hashes the content of an event.
"""
