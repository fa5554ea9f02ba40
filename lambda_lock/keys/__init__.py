"""Builds the lock's key from a call's arguments, for decorators and batches.

All of this is private. `payload_hash` is public as ``lambda_lock.payload_hash``.

The modules, lowest first: `arguments` finds an argument in a call, and turns it into text. `template` says where each
value comes from and keeps several apart; `jmespath` does so for expressions. `compile` decides which of these a
``key=`` is. `payload_hash` hashes what an event contains.
"""
