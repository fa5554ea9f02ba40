"""One state of an execution that has a permit: ``permit_state.py folder execution N string``, in a process of its own.

string: of the hold; "" acquires as the execution. It marks that the execution is inside by a file, prints owner and
token, and then does what it is told by lines: "hand over", or "release", whose result it prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lambda_lock import LockClient, LockLostError, LockNotGrantedError

folder, execution, permits, string = sys.argv[1:]
client = LockClient(lease_duration=30)
try:
    acquiring = {"permits": int(permits), "holder": execution, "wait": 0}
    lock = client.resume(string) if string else client.acquire("api", **acquiring)  # type: ignore[arg-type]
except LockNotGrantedError:
    print("null", flush=True)
    sys.exit()
(Path(folder) / execution).touch()
print(json.dumps([lock.owner, lock.fencing_token]), flush=True)
for line in sys.stdin:
    try:
        print(json.dumps(lock.hand_over(lease_duration=30) if "hand" in line else lock.release()), flush=True)
    except LockLostError:
        print("false", flush=True)
