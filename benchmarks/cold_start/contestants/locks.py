"""lambda_lock: @with_lock on a handler. The table, Region and credentials come from the environment."""

from __future__ import annotations

import sys

from benchmarks.cold_start.contestants.harness import Context, held
from lambda_lock import with_lock


@with_lock("order#{id}")
def handler(event: dict[str, str], context: Context) -> None:
    held()


handler({"id": sys.argv[1]}, Context())
