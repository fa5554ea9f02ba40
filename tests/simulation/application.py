"""An application's own rows, which commits write under a condition that comes and goes: each lock has one."""

from __future__ import annotations

from typing import Any

from .world import World


def change(world: World, key: str) -> None:
    """The row of ``key`` lets commits pass or not, now and at some moments to come."""
    rng = world.rng
    _set_open(world, key)
    for _ in range(rng.choice((0, 1, 3))):
        delay = 10 ** rng.uniform(-2, 1) if rng.random() < 0.7 else world.scale * rng.uniform(0, 2.5)
        world.at(world.now + delay, _set_open, world, key)


def _set_open(world: World, key: str) -> None:
    is_open = "1" if world.rng.random() < world.settings.is_open else "0"
    world.table.apply(
        "UpdateItem",
        {
            "TableName": "application",
            "Key": {"key": {"S": f"application-{key}"}},
            "UpdateExpression": "SET open = :open",
            "ExpressionAttributeValues": {":open": {"N": is_open}},
        },
    )
    world.trace("somebody", f"sets application-{key} open={is_open}")


def items(key: str) -> list[dict[str, Any]]:
    """What a commit under the lock ``key`` writes."""
    update = {
        "TableName": "application",
        "Key": {"key": {"S": f"application-{key}"}},
        "UpdateExpression": "SET writes = if_not_exists(writes, :none) + :one",
        "ConditionExpression": "open = :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}, ":none": {"N": "0"}},
    }
    return [{"Update": update}]
