"""One engine and one table, shared by different lock clients."""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, Schema
from rig.engine import Item, Ministack, client_environment
from tests.interop.peers import KINDS, Kind, Missing, Peer, ours
from tests.support import rows as support
from tests.support.waiting import DEADLINE

LEASE = 2.0
HEARTBEAT = 0.5
REFRESH = 0.1

Start = Callable[..., Peer]
Make = Callable[..., LockClient]


@pytest.fixture(autouse=True)
def _at_the_engine(table: str) -> None:
    """The environment of this process names the engine."""


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the other clients, one after another."""
    found: Kind = request.param
    return found


@pytest.fixture
def make_table(new_table: Callable[..., str]) -> Callable[..., str]:
    return lambda schema, sort_key=None: new_table(*filter(None, (schema.partition_key, sort_key or schema.sort_key)))


@pytest.fixture
def shared(kind: Kind, make_table: Callable[..., str]) -> str:
    """An empty table with the keys that ``kind`` needs."""
    return make_table(kind.schema)


@pytest.fixture(scope="session")
def idle() -> Iterator[dict[str, list[Peer]]]:
    """The processes that a test left undisturbed and that can serve the next one, by the names of their kinds."""
    peers: dict[str, list[Peer]] = {}
    yield peers
    for peer in itertools.chain(*peers.values()):
        peer.kill()


@pytest.fixture
def start(engine: Ministack, idle: dict[str, list[Peer]]) -> Iterator[Start]:
    """Starts processes of other clients. At the end of the test it kills those that cannot serve another test.

    If a toolchain is missing, the test is skipped. In CI it fails.
    """
    peers: list[Peer] = []
    lent: dict[Peer, list[Peer]] = {}  # the peers that may serve another test, and the list to return them to

    def begin(kind: Kind | None, endpoint: str | None) -> Peer:
        try:
            command = ours() if kind is None else kind.command()
        except Missing as missing:
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI must have what the {kind} client needs: {missing}")
            pytest.skip(f"the {kind} client cannot run here: {missing}")
        peers.append(Peer(command, client_environment(endpoint or engine.url)))
        assert peers[-1].answer() == {"ready": True}
        return peers[-1]

    def run(kind: Kind | None, table: str, *, endpoint: str | None = None, **options: Any) -> Peer:
        if kind is not None and kind.serves_several and endpoint is None:
            waiting = idle.setdefault(kind.name, [])
            peer = waiting.pop() if waiting else begin(kind, endpoint)
            lent[peer] = waiting
        else:
            peer = begin(kind, endpoint)
        opened = peer.ask("open", **{"table": table, "lease": LEASE, "heartbeat": HEARTBEAT, **options})
        assert opened == {"opened": True}, opened
        return peer

    yield run
    for peer in {*peers, *lent}:
        if peer in lent and peer.retire():
            lent[peer].append(peer)
        else:
            peer.kill()


@pytest.fixture
def peer(kind: Kind, shared: str, start: Start) -> Peer:
    """A process of the other client on the shared table."""
    return start(kind, shared)


@pytest.fixture
def our_peer(kind: Kind, shared: str, start: Start) -> Peer:
    """A process of our client on the shared table."""
    return start(None, shared, schema=kind.schema.name)


@pytest.fixture
def make() -> Iterator[Make]:
    """Creates clients of ours in this process, with the settings that a shared table needs."""
    clients: list[LockClient] = []

    def build(table: str, schema: Schema, **options: Any) -> LockClient:
        settings: dict[str, Any] = {"lease_duration": LEASE, "refresh_period": REFRESH, "ttl": None}
        clients.append(LockClient(table, schema=schema, **{**settings, **options}))
        return clients[-1]

    yield build
    for client in clients:
        client.close(release=False)


@pytest.fixture
def client(kind: Kind, shared: str, make: Make) -> LockClient:
    """Our client on the shared table."""
    return make(shared, kind.schema)


class Rows(support.Rows):
    """A table as it is stored in the engine. Its requests use no lock client."""

    def __init__(self, engine: Ministack, table: str, schema: Schema) -> None:
        super().__init__(engine, table)
        self._schema = schema

    def item_key(self, key: str) -> Item:
        schema = self._schema
        sort = {} if schema.sort_key is None else {schema.sort_key: {"S": schema.sort_key_value}}
        return {schema.partition_key: {"S": key}} | sort

    def remove(self, key: str, attribute: str) -> None:
        update = {"UpdateExpression": "REMOVE #a", "ExpressionAttributeNames": {"#a": attribute}}
        self.engine.dynamodb("UpdateItem", {"TableName": self.table, "Key": self.item_key(key), **update})

    def owner(self, key: str) -> str:
        return str(self[key][self._schema.owner]["S"])

    def version(self, key: str) -> str:
        return str(self[key][self._schema.version]["S"])

    def after_a_renewal(self, key: str) -> float:
        """Wait until the holder has renewed. Returns a moment before this renewal and after the grant.

        The moment is on the monotonic clock. Within a lease from it, no client may take the lock unless it is released.
        """
        unchanged, first = time.monotonic(), self.version(key)
        end = unchanged + DEADLINE
        while True:
            before = time.monotonic()
            if self.version(key) != first:
                return unchanged
            unchanged = before
            assert before < end, "the holder does not renew"
            time.sleep(0.01)


@pytest.fixture
def rows(engine: Ministack, shared: str, kind: Kind) -> Rows:
    return Rows(engine, shared, kind.schema)
