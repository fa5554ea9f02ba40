"""A process that holds a lock until somebody kills it: ``python worker.py key lease``. test_processes.py starts it."""

import sys
import time

from lambda_lock import LockClient

key, lease = sys.argv[1:]
lock = LockClient(lease_duration=float(lease)).acquire(key)
print(lock.fencing_token, flush=True)
time.sleep(600)
