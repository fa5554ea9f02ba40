"""One attempt in a process of its own: ``python worker.py act argument``. Prints what it has, and waits to be killed.

When it is told to go on, it hands over, prints the string, or whose the hold is now, and ends.
"""

import json
import sys

from lambda_lock import LockClient, LockLostError

act, argument = sys.argv[1:]
client = LockClient(lease_duration=60)
if act == "resume":
    lock = client.resume(argument)
elif act == "parts":
    lock = client.resume(**json.loads(argument))
else:
    lock = client.acquire("a", holder=argument, wait=0)
print(json.dumps([lock.owner, lock.fencing_token, lock.is_held]), flush=True)
sys.stdin.readline()
try:
    print(lock.hand_over(lease_duration=120), flush=True)
except LockLostError as error:
    print(type(error).__name__, error.holder, flush=True)
