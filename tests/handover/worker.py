"""Another process that adopts what it is handed: ``python worker.py string``. Prints what it has, and releases."""

import json
import sys

from lambda_lock import LockClient

lock = LockClient().adopt(sys.argv[1])
print(json.dumps([lock.key, lock.owner, lock.fencing_token, lock.is_held, (lock.data or b"").decode()]), flush=True)
sys.stdin.readline()
lock.heartbeat()
print(json.dumps(lock.release()), flush=True)
