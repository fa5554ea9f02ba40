"""The owners that an application names, and its own rows, one for each lock. Commits write these under a condition that
comes and goes."""

from typing import Any

from lambda_lock.core.protocol import Entropy

from .world import World


def owner_name(process: str, entropy: Entropy) -> str:
    """Return an owner that is unique for each acquisition, as rule 10 of core/protocol.py requires."""
    return f"{process}#{entropy.nonce()[:8]}"


def change(world: World, key: str) -> None:
    """Make the row of ``key`` accept commits or not, now and at some later moments."""
    rng = world.rng
    _set_open(world, key)
    for _ in range(rng.choice((0, 1, 3))):
        delay = 10 ** rng.uniform(-2, 1) if rng.random() < 0.7 else world.scale * rng.uniform(0, 2.5)
        world.at(world.now + delay, _set_open, world, key)


def _set_open(world: World, key: str) -> None:
    is_open = "1" if world.rng.random() < world.settings.is_open else "0"
    change = {"UpdateExpression": "SET open = :open", "ExpressionAttributeValues": {":open": {"N": is_open}}}
    world.table.apply("UpdateItem", {**_row(key), **change})
    world.trace("somebody", f"sets application-{key} open={is_open}")


def items(key: str) -> list[dict[str, Any]]:
    """Return what a commit under the lock ``key`` writes."""
    change = {"UpdateExpression": "SET writes = if_not_exists(writes, :none) + :one"}
    when = {"ConditionExpression": "open = :one"}
    values = {"ExpressionAttributeValues": {":one": {"N": "1"}, ":none": {"N": "0"}}}
    return [{"Update": {**_row(key), **change, **when, **values}}]


def _row(key: str) -> dict[str, Any]:
    return {"TableName": "application", "Key": {"key": {"S": f"application-{key}"}}}
