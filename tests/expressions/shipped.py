"""The requests that the shipped protocol builds, over rows that it wrote, and over rows that it did not write."""

from typing import Any

from hypothesis import strategies as st

from lambda_lock import GO, JAVA, PYTHON, Schema
from lambda_lock.core import permits, rate, requests, tickets, transaction
from lambda_lock.core.lease import ClockReading
from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.protocol import AcquireRequest, ClientMemory, Conversation, Entropy
from lambda_lock.core.requests import Completion, Content, Grant, Place, QueueCondition
from lambda_lock.core.row import RATE, RELEASED, SEAL, Row, make_version
from lambda_lock.decorators.disabled import unguarded_item

from .databases import Case, Item, Request
from .grammar import encoded, values

#: Each schema with its table, and the name and value of its sort key there.
PLACES: list[tuple[Schema, str, str | None, str | None]] = [
    (JAVA, "locks", None, None),
    (JAVA, "sorted", "sort", "s"),
    (JAVA.replace(owner="wem-gehört-es", data="payload.bytes", token="size"), "locks", None, None),
    (GO, "locks", None, None),
    (PYTHON, "python", "sort_key", "-"),
]
OWNERS = ("me#1", "me#2", "Grüße ☃#3", "execution/4")
NONCES = tuple(digit * 32 for digit in "0af")
TIMES = (1_800_000_000_000, 1_800_000_020_000, 1_800_000_040_500)  # epoch ms
VERSIONS = tuple(make_version(time, nonce) for time in TIMES for nonce in NONCES)
TOKENS = (0, 1, 7, 1_800_000_000_000, 10**37)
PLACES_IN_LINE = ("aaaaaaaa", "bbbbbbbb", "é")
NEXT = (1_800_000_000_000_000, 1_800_000_000_000_001, 1_800_000_008_571_429)  # epoch microseconds
LEASES = (1000, 20_000, 90_500)

owners = st.sampled_from(OWNERS)
versions = st.sampled_from(VERSIONS)
tokens = st.sampled_from(TOKENS)
times = st.sampled_from(TIMES)
leases = st.sampled_from(LEASES)
flags = st.booleans()
lines = st.lists(st.sampled_from(PLACES_IN_LINE), max_size=3, unique=True)
grants = st.builds(Grant, owners, versions, leases, times, times)
contents = st.builds(
    Content,
    st.none() | encoded,
    flags,
    st.none() | st.dictionaries(st.sampled_from(["region", "größe", "a.b"]), values, max_size=2),
    st.none() | st.sampled_from([0, 60, 10**9]),
)


@st.composite
def places(draw: st.DrawFn) -> Place:
    schema, table, sort_key_name, sort_key = draw(st.sampled_from(PLACES))
    key = draw(st.sampled_from(["k", "é☃", "order#{1}"]))
    return Place(table, schema, "lock_key" if table == "python" else "key", key, sort_key_name, sort_key)


entries = st.builds(
    lambda version, lease, owner: permits.write_entry(version, lease, owner.partition("#")[0]), versions, leases, owners
)


@st.composite
def rows(draw: st.DrawFn, place: Place) -> Item:
    """A row as the protocol leaves it, with some attributes missing and some of any type."""
    schema = place.schema
    seal = schema.permits is not None and draw(st.integers(0, 2)) == 2
    row: dict[str | None, Any] = {
        schema.owner: {"S": SEAL if seal else draw(owners)},
        schema.version: {"S": SEAL if seal else draw(versions)},
        schema.lease: {"S": SEAL} if seal else schema.write_lease(draw(leases)),
        schema.token: {"N": str(draw(tokens))},
        schema.ttl: draw(st.none() | st.just({"N": "1800000060"})),
        schema.released: draw(st.sampled_from([None, {"S": RELEASED}])),
        schema.data: draw(st.none() | encoded.map(lambda text: {"B": text})),
        schema.completed_until: draw(st.none() | st.just({"N": "1800000000"})),
        schema.result: draw(st.none() | st.just({"S": "{}"})),
        schema.waiters: draw(st.none() | lines.map(lambda names: {"L": [{"S": name} for name in names]})),
        schema.held_ms: draw(st.none() | st.just({"N": "250"})),
        "region": draw(st.none() | values),
    }
    if seal:
        held = draw(st.dictionaries(st.sampled_from(NONCES), entries, max_size=3))
        row[schema.permits] = {"M": held}
        row[schema.permit_tokens] = {"M": {nonce: {"N": str(draw(tokens))} for nonce in held}}
    if schema.rate is not None and not seal and draw(st.integers(0, 3)) == 3:
        row |= {name: {"S": RATE} for name in (schema.owner, schema.version, schema.lease)}
        row[schema.rate], row[schema.next_at] = {"S": "7/60/2"}, {"N": str(draw(st.sampled_from(NEXT)))}
        row[schema.last_take] = draw(st.sampled_from([None, {"S": "aaaaaaaa"}]))
    odd = sorted(name for name in row if name is not None)
    for name in draw(st.lists(st.sampled_from(odd), max_size=2, unique=True)):
        row[name] = draw(st.none() | values)
    return {name: value for name, value in row.items() if name is not None and value is not None} | place.item_key


@st.composite
def completions(draw: st.DrawFn) -> Completion | None:
    if draw(flags):
        return None
    return Completion(1_800_000_100, draw(st.sampled_from([None, "", '{"größe":1}', "x" * 3000])))


@st.composite
def stands(draw: st.DrawFn) -> QueueCondition | None:
    if draw(flags):
        return None
    observed = dict(enumerate(draw(lines)))
    if draw(flags):
        return QueueCondition(observed, alone=True)
    return QueueCondition({at: name for at, name in observed.items() if draw(flags)}, behind=draw(st.integers(0, 1)))


def lock_requests(place: Place, row: Item, draw: st.DrawFn) -> dict[str, Any]:
    """How each request on a lock's row is built, by name."""
    schema = place.schema
    grant, content = draw(grants), draw(contents)
    owner, token, version = draw(owners), draw(tokens), draw(versions)
    text = row.get(schema.owner, {}).get("S")
    stored = row.get(schema.token, {}).get("N")
    if draw(st.integers(0, 3)):  # so that many conditions hold
        owner = text if isinstance(text, str) else owner
        token = int(stored) if isinstance(stored, str) and stored.isdigit() else token
    seen = row.get(schema.version, {}).get("S")
    later = Grant(owner, version, draw(leases), draw(times))
    other = Grant(draw(owners), version, later.lease_ms, later.expiry_ms)
    completed = draw(st.sampled_from([None, 1_800_000_000]))
    ways = {
        "claim": lambda: requests.claim(
            place, grant, content, observed=draw(st.sampled_from([None, seen or version, version])),
            only_if_exists=draw(flags), event=draw(flags), completed_until=completed,
            queue=draw(stands()) if schema.waiters else None),
        "replace": lambda: requests.replace(
            place, grant, content, observed=draw(st.sampled_from([None, Row(row, schema)])), only_if_exists=draw(flags)
        ),
        "adopt": lambda: requests.renew(
            place, other, seen=owner, token=token, next_token=True, completed_until=None, content=content),
        "resume": lambda: requests.renew(
            place, other, seen=owner, token=token, completed_until=completed, content=content),
        "renew": lambda: requests.renew(
            place, later, token=token, completed_until=completed, content=content, delete_data=draw(flags)),
        "release": lambda: requests.release(
            place, owner=owner, token=draw(st.sampled_from([None, token])),
            version=draw(st.sampled_from([None, seen])), delete=draw(flags), expiry_ms=draw(st.none() | times),
            completed_until=completed, completion=draw(completions()), content=content,
            held_ms=draw(st.sampled_from([None, 7]))),
        "read": lambda: requests.read(place),
    }  # fmt: skip
    if schema.released:
        ways["release by string"] = lambda: requests.release(place, owner=owner, token=token, content=Content())
    if schema.waiters:
        name = st.sampled_from(PLACES_IN_LINE)
        ways["take_ticket"] = lambda: tickets.take_ticket(place, draw(name))
        ways["renew_ticket"] = lambda: tickets.renew_ticket(place, draw(st.integers(0, 2)), draw(name), draw(name))
        ways["return_ticket"] = lambda: tickets.return_ticket(place, draw(st.integers(0, 2)), draw(name))
    last = "release by string" if schema.released else "renew"
    ways["commit"] = lambda: _commit(place, owner, token, ways[last](), draw)
    return ways


def permit_requests(place: Place, row: Item, draw: st.DrawFn) -> dict[str, Any]:
    """The same for a semaphore's row."""
    nonce = draw(st.sampled_from(NONCES))
    permit = PermitPlace(place, draw(st.integers(1, 3)), f"me#{nonce}")
    grant, content, token = draw(grants), draw(contents), draw(tokens)
    seen = permit.view(row)
    seen.is_held = True
    others = {name: entry for name, entry in seen.entries.items() if entry is not None and name != nonce}
    seen.dead = {name: entry for name, entry in others.items() if draw(flags)}
    new = permit.view({})
    one = seen.entries.get(nonce)
    version = one.version if one is not None and draw(flags) else draw(versions)
    if one is not None and one.token is not None and draw(flags):
        token = one.token
    return {
        "first permit": lambda: requests.claim(permit, grant, content, row=new, only_if_exists=draw(flags)),
        "claim a permit": lambda: requests.claim(
            permit, grant, content, row=seen, queue=draw(stands()), only_if_exists=draw(flags)),
        "correct a permit": lambda: requests.claim(permit, grant, content, row=seen, observed=version),
        "renew a permit": lambda: requests.renew(
            permit, Grant("me", draw(versions), draw(leases), draw(times)), token=token, completed_until=None,
            content=content, delete_data=draw(flags)),
        "release a permit": lambda: requests.release(
            permit, owner="me", **({"token": token} if draw(flags) else {"version": version}), expiry_ms=0,
            content=content, held_ms=draw(st.sampled_from([None, 7]))),
        "commit under a permit": lambda: transaction.all_or_none(
            [PermitPlace(_beside(place), 2, f"me#{nonce}").transact_item("me", token), *_writes(draw)],
            requests.release(permit, owner="me", token=token, expiry_ms=0, content=content),
            "token"),
    }  # fmt: skip


def rate_requests(place: Place, row: Item, draw: st.DrawFn) -> dict[str, Any]:
    """The same for a rate limit's row."""
    wanted = AcquireRequest(place, "", 1000, draw(contents))
    talk = Conversation(ClientMemory(1), Entropy(lambda: "0" * 32, lambda: 0.5), ClockReading(0, 0, 0))
    start = rate.Start(wanted, rate.Limit(7, 60.0, 2, 1), talk, lambda _: None)
    names = ["aaaaaaaa", "bbbbbbbb"]
    start.sent = {draw(st.sampled_from(names)): (0, talk.reading, 0.0)}
    now, latest = draw(st.sampled_from(NEXT)), draw(st.sampled_from(NEXT))

    def give_back() -> Request:
        send = next(start.give_back())
        return send.operation, send.request  # type: ignore[union-attr]

    return {
        "take a start": lambda: start.request(draw(st.sampled_from(names)), now, latest, draw(flags)),
        "give a start back": give_back,
    }


def _commit(place: Place, owner: str, token: int, last: Request, draw: st.DrawFn) -> Request:
    """Writes of the application together with the lock's last write."""
    guard = _beside(place).transact_item(owner, token)
    free = unguarded_item(_beside(place))
    return transaction.all_or_none([*draw(st.sampled_from([[], [guard], [free]])), *_writes(draw)], last, "token")


def _beside(place: Place) -> Place:
    """Another row of the same table."""
    sort = place.key_names[1] if len(place.key_names) > 1 else None
    return Place(place.table, place.schema, place.key_names[0], "other", sort, place.sort_key)


def _writes(draw: st.DrawFn) -> list[dict[str, Any]]:
    item = {"id": {"N": draw(st.sampled_from(["7", "8"]))}, "größe": draw(values)}
    put: dict[str, Any] = {"TableName": "orders", "Item": item}
    if draw(flags):
        put["ConditionExpression"] = "attribute_not_exists(id)"
    if draw(flags):
        put["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return [{"Put": put}] if draw(flags) else []


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A row or none, and then requests of the protocol to it."""
    place = draw(places())
    row = draw(rows(place))
    found: list[Request] = [("PutItem", {"TableName": place.table, "Item": row})] if draw(st.integers(0, 9)) else []
    for _ in range(draw(st.integers(1, 3))):
        build = lock_requests
        is_rate = row.get(place.schema.version) == {"S": RATE}
        if place.schema.rate is not None and (is_rate or not draw(st.integers(0, 3))):
            build = rate_requests
        elif place.schema.permits is not None and (SEAL in str(row.get(place.schema.version)) or draw(flags)):
            build = permit_requests
        ways = build(place, row, draw)
        found.append(ways[draw(st.sampled_from(sorted(ways)))]())
    return Case(found)
