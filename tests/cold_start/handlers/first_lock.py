"""A function that tells which modules were there before it, and which its first lock brought."""

import sys

BEFORE = sorted(sys.modules)

from lambda_lock import with_lock  # noqa: E402


@with_lock("invoice#{detail[customer_id]}")
def body(event: dict[str, object], context: object) -> list[str]:
    return sorted(sys.modules)


def handler(event: dict[str, object], context: object) -> dict[str, list[str]]:
    held = body(event, context)
    return {"before": BEFORE, "held": held, "released": sorted(sys.modules)}
