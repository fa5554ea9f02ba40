"""From a call's arguments to the lock's key, for decorators and batches.

Private throughout: `payload_hash` is public as ``lambda_lock.payload_hash``.

Lowest first: `parameters` (where an argument stands in a call), `values` (what it becomes in a key), `separator` (how
several are kept apart), `template` and `jmespath` (where each comes from), `compile` (which of these a ``key=`` is) and
`payload_hash`.
"""
