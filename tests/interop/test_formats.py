"""If clients cannot read each other's rows, each fails with an error and leaves the row alone."""

import pytest

from lambda_lock import GO, JAVA, PYTHON, LockClient, LockConfigurationError, LockFormatError
from tests.support.waiting import DEADLINE

from .peers import GO_STAND_IN, JAVA_CLIENT, PYTHON_CLIENT
from .test_sharing import TRY, WAIT, take

pytestmark = pytest.mark.long

KEYS = {"partition_key_name": "lock_key", "sort_key_name": "sort_key"}


@pytest.mark.parametrize(
    ("kind", "schema", "error"),
    [(JAVA_CLIENT, GO, "NumberFormatException"), (GO_STAND_IN, JAVA, "ValueError")], ids=str, indirect=["kind"],
)  # fmt: skip
def test_a_lock_held_in_the_other_format_is_an_error_at_once_to_either_and_never_taken_over(
    kind, schema, error, shared, start, make, rows
):
    peer, client = start(kind, shared), make(shared, schema)
    lock = client.acquire("ours")
    for terms in (TRY, WAIT):
        assert peer.ask("acquire", key="ours", **terms)["error"] == error
    assert rows.owner("ours") == lock.owner
    assert lock.release() is True
    assert peer.ask("acquire", key="ours", **TRY)["error"] == error  # even though it is released
    take(peer)
    for ended in (lambda: None, peer.kill):
        ended()
        for wait in (0, DEADLINE):
            with pytest.raises(LockFormatError, match="leaseDuration") as refused:
                client.acquire("k", wait=wait)
            assert refused.value.key == "k"
    record = client.get("k")
    assert record is not None
    assert record.lease_duration is None
    assert record.owner == rows.owner("k")


@pytest.mark.parametrize("kind", [PYTHON_CLIENT], ids=str, indirect=True)
def test_an_older_clients_table_has_other_key_names_than_a_schema_that_is_not_its_own(kind, shared, start, make, rows):
    """Where the names are right all the same, it fails on our row, and leaves it alone."""
    peer = start(kind, shared)
    take(peer)
    row = rows["k"]
    for schema in (JAVA, GO):
        with pytest.raises(LockConfigurationError):
            make(shared, schema).acquire("k", wait=0)
    assert rows["k"].keys() == row.keys()
    peer.ask("release", key="k")
    client = make(shared, JAVA, **KEYS)
    with client.acquire("k", sort_key="-") as lock:
        for terms in (TRY, WAIT):
            assert peer.ask("acquire", key="k", **terms)["error"] == "UNKNOWN"
        lock.heartbeat()


@pytest.mark.parametrize(
    ("kind", "schema", "names"),
    [
        (PYTHON_CLIENT, JAVA, KEYS),
        (PYTHON_CLIENT, GO, KEYS),
        (JAVA_CLIENT, PYTHON, {"partition_key_name": "key", "sort_key_name": "part"}),
    ],
    ids=str,
    indirect=["kind"],
)
def test_the_right_key_names_with_the_wrong_schema_never_take_a_live_lock(
    kind, schema, names, make_table, start, make, engine
):
    """A row without its own schema's version is a free lock, unless it has the version of another schema."""
    sort_key = names["sort_key_name"]
    table = make_table(kind.schema, sort_key)
    peer = start(kind, table, sort_key_name=sort_key)
    take(peer, sort_key="-")
    before = engine.scan(table)[0].keys()
    client: LockClient = make(table, schema, **names)
    with pytest.raises(LockFormatError, match="schema"):
        client.acquire("k", sort_key="-", wait=0)
    assert engine.scan(table)[0].keys() == before
