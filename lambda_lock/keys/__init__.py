"""From a call's arguments to the lock's key, for decorators and batches.

Private but for `payload_hash`, which is public as ``lambda_lock.payload_hash``.
"""
