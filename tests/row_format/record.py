"""Writes the files of docs/row-format anew: `python -m tests.row_format.record`.

What is asked for stands here. What is sent is the shipped code's, and the answers are those of the table in memory;
tests compare them with a real engine. Whoever runs this after a change of the protocol reads the difference: it is what
clients in other languages have to follow.
"""

from __future__ import annotations

import json
from typing import Any

from lambda_lock.client.event_results import result_parts
from lambda_lock.core.lease import ClockReading, Observation, may_take_over, validity
from lambda_lock.core.outcome import ConditionFailed
from lambda_lock.core.permits import read_entry
from lambda_lock.core.row import counts, expiry_of, ticket_expiry, ticket_take
from lambda_lock.core.sleepers import read_sleeper
from lambda_lock.core.tickets import make_ticket
from lambda_lock.keys.arguments import scoped
from lambda_lock.testing.table import Table
from tests.core.driver import NOW

from .play import FOLDER, REFUSED, SCHEMAS, Json, Player, place_of

FORMAT = "1.1"
_WIDTH = 120
N = int(NOW)  # the epoch second in which each scenario begins
NONCES = [f"{digit:x}" * 32 for digit in range(1, 10)]
ONE, TWO, THREE = (f"{name}#{letter * 32}" for name, letter in (("one", "a"), ("two", "b"), ("three", "c")))


def version(expiry_ms: int, digit: str = "0") -> Json:
    return {"S": f"L1:{expiry_ms:013d}:{digit * 32}"}


def row(expires_in: float, owner: str = ONE, **more: Json | None) -> Json:
    """A row of a lock that was taken for 20 s. expires_in: seconds from the start; below 0: its expiry has passed."""
    item = {
        "key": {"S": "k"},
        "ownerName": {"S": owner},
        "leaseDuration": {"S": "20000"},
        "recordVersionNumber": version(int((N + expires_in) * 1000)),
        "fencingToken": {"N": "41"},
        "ttl": {"N": str(N + int(expires_in) + 86_400)},
        **more,
    }
    return {name: value for name, value in item.items() if value is not None}


def free(**more: Any) -> Json:
    return row(-100, isReleased={"S": "1"}, **more)


def scenario(name: str, *steps: Json, before: Json | None = None, schema: str = "JAVA") -> Json:
    return {"name": name, "schema": schema, "key": "k", "before": before, "nonces": NONCES, "steps": list(steps)}


def acquire(owner: str = ONE, at: float = 0.0, **more: Any) -> Json:
    return {"act": "acquire", "at": at, "owner": owner, "lease_ms": 20_000, "ttl": 86_400, **more}


def another(item: Json | None, at: float = 0.0) -> Json:
    return {"act": "another writes", "at": at, "item": item}


def act(name: str, at: float, **more: Any) -> Json:
    return {"act": name, "at": at, **more}


JAVA_ROW = row(0, owner="java", recordVersionNumber={"S": "5e0e7f0c-5fd3-4a3c-8f43-0a3fb3c0a6a1"}, fencingToken=None)

LOCKS = [
    scenario(
        "Claim a lock that has no row, renew it, and release it", acquire(), act("renew", 7.0), act("release", 9.5)
    ),
    scenario("Claim a lock that was released", acquire(TWO), before=free(data={"B": "aGVsbG8="})),
    scenario(
        "Claim with data and an attribute of the application's own, and release with other data",
        acquire(data="aGVsbG8=", attributes={"colour": {"S": "red"}}),
        act("release", 1.0, data="Ynll"),
    ),
    scenario("A lock that is held is refused", acquire(TWO), before=row(15)),
    scenario("Take over a lock whose stored expiry has passed by the Date", acquire(TWO), before=row(-3)),
    scenario("The stored expiry has been reached in the very second of the Date", acquire(TWO), before=row(0)),
    scenario("The stored expiry is a millisecond away", acquire(TWO), before=row(0.001)),
    scenario(
        "Take over a lock of the Java client once its version has not changed for its lease",
        acquire(TWO),
        acquire(TWO, at=20.0),
        acquire(TWO, at=20.021),
        before=JAVA_ROW,
    ),
    scenario(
        "A version that changed meanwhile is observed anew",
        acquire(TWO),
        another(JAVA_ROW | {"recordVersionNumber": {"S": "0d9c0a52-5c38-4f0e-9a51-2f1d4ddc7f0a"}}, at=15.0),
        acquire(TWO, at=25.0),
        before=JAVA_ROW,
    ),
    scenario(
        "A lease that cannot be read is never taken over", acquire(TWO), before=row(-3, leaseDuration={"S": "20s"})
    ),
    scenario(
        "A row of another schema is left alone",
        acquire(TWO),
        before={"key": {"S": "k"}, "record_version_number": {"S": "v"}},
    ),
    scenario("An answer to a claim is lost: the same body again, and the refusal shows the grant", acquire(lost=1)),
    scenario(
        "A claim that is given up: it may have arrived, so it is released under its version",
        acquire(lost=1, given_up=True),
    ),
    scenario("An answer to a release is lost: released under my token is done", acquire(), act("release", 1.0, lost=1)),
    scenario(
        "A renewal that is refused because another has the row: lost, and the release does nothing",
        acquire(),
        another(row(60, owner=TWO), at=5.0),
        act("renew", 6.0),
        act("release", 7.0),
    ),
    scenario("A renewal with a shorter lease", acquire(), act("renew", 2.0, lease_ms=5_000), act("release", 3.0)),
    scenario("A clock that is a minute fast: the grant is corrected", acquire(clock_ahead=60.0)),
    scenario(
        "A clock that is a minute slow: validity had passed on arrival, and the grant is corrected",
        acquire(clock_ahead=-60.0),
    ),
    scenario(
        "A take-over that somebody else wins is refused",
        acquire(TWO, client="two"),
        acquire(THREE, client="three"),
        before=row(-3),
    ),
    scenario("A lock whose row is deleted on release", acquire(delete_on_release=True), act("release", 1.0)),
    scenario(
        "The schema of the Go client", acquire(), act("renew", 2.0, lease_ms=1_500), act("release", 3.0), schema="GO"
    ),
    scenario("The schema of python-dynamodb-lock", acquire(), act("renew", 2.0), act("release", 3.0), schema="PYTHON"),
]

EVENTS = [
    scenario(
        "A new event: claim, and a release that completes it with a result",
        acquire(window=3_600),
        act("release", 2.0, completed={"result": '{"paid":true}'}),
        acquire(TWO, at=3.0, window=3_600, client="two"),
    ),
    scenario("An event completed without a result", acquire(window=60), act("release", 1.0, completed={})),
    scenario(
        "An event whose work failed: a plain release, and the next delivery runs",
        acquire(window=3_600),
        act("release", 1.0),
        acquire(TWO, at=2.0, window=3_600, client="two"),
    ),
    scenario("An event in progress elsewhere is contention", acquire(TWO, window=3_600), before=row(15)),
    scenario(
        "A duplicate within the window",
        acquire(TWO, window=60),
        before=free(completedUntil={"N": str(N + 30)}, result={"S": '"r"'}),
    ),
    scenario(
        "The window has passed: the claim requires the completion that it has seen, and removes the old result",
        acquire(TWO, window=60),
        before=free(completedUntil={"N": str(N - 2)}, result={"S": '"r"'}),
    ),
    scenario(
        "The window ends in this second: the claim leaves the old result to duplicates whose Date is a second behind",
        acquire(TWO, window=60),
        before=free(completedUntil={"N": str(N)}, result={"S": '"r"'}),
    ),
    scenario("An event whose holder died is taken over", acquire(TWO, window=60), before=row(-3)),
    scenario(
        "Forget an event that is done",
        act("forget", 0.0, owner=TWO, lease_ms=20_000),
        before=free(completedUntil={"N": str(N + 30)}),
    ),
    scenario("Forget an event in progress", act("forget", 0.0, owner=TWO, lease_ms=20_000), before=row(15)),
    scenario("Forget what was never there", act("forget", 0.0, owner=TWO, lease_ms=20_000)),
]

_FULL = {"permits": 2, "client": "three"}
PERMITS = [
    scenario(
        "Two of two permits, and a third caller that is refused; one is released, and the third gets it",
        acquire(ONE, permits=2, client="one"),
        acquire(TWO, at=1.0, permits=2, client="two"),
        acquire(THREE, at=2.0, **_FULL),
        act("renew", 5.0, client="one"),
        act("release", 6.0, client="two"),
        acquire(THREE, at=7.0, **_FULL),
    ),
    scenario(
        "An entry whose stored expiry has passed is replaced",
        acquire(ONE, permits=1, client="one"),
        acquire(TWO, at=22.0, permits=1, client="two"),
        acquire(TWO, at=23.0, permits=1, client="two"),
        act("release", 24.0, client="one"),
    ),
    scenario(
        "A claim of a permit that is given up",
        acquire(ONE, permits=2, client="one"),
        acquire(TWO, at=1.0, permits=2, client="two", lost=1, given_up=True),
    ),
    scenario(
        "A permit taken with a clock that is a minute fast: the entry is corrected",
        acquire(ONE, permits=2, client="one"),
        acquire(TWO, at=1.0, permits=2, client="two", clock_ahead=60.0),
    ),
    scenario("A lock is no semaphore", acquire(TWO, permits=2), before=row(15)),
    scenario(
        "A semaphore is no lock",
        acquire(ONE, permits=2, client="one"),
        acquire(TWO, at=1.0, client="two"),
    ),
]

_DAMAGED: Json = {
    "key": {"S": "k"},
    "ownerName": {"S": "semaphore"},
    "leaseDuration": {"S": "semaphore"},
    "recordVersionNumber": {"S": "semaphore2"},
    "permits": {"M": {"a" * 32: {"S": f"L1:{(N + 15) * 1000}:{'0' * 32}:20000:one"}}},
    "permitTokens": {"M": {"a" * 32: {"N": "41"}}},
    "permitTakes": {"M": {"a" * 32: {"N": "2"}}},
    "permitsTaken": {"N": "1"},
    "fencingToken": {"N": "41"},
}
_TWO_OF_THREE: Json = {"permits": 3, "take": 2}
T3 = make_ticket("cccccccc", N + 30, 2)
WEIGHTS = [
    scenario(
        "Two of three permits, and one that is free; one who wants two is refused until two are released",
        acquire(ONE, **_TWO_OF_THREE, client="one"),
        acquire(TWO, at=1.0, permits=3, take=1, client="two"),
        acquire(THREE, at=2.0, **_TWO_OF_THREE, client="three"),
        act("renew", 3.0, client="one"),
        act("release", 4.0, client="one"),
        acquire(THREE, at=5.0, **_TWO_OF_THREE, client="three"),
        act("release", 6.0, client="three"),
        act("release", 7.0, client="two"),
    ),
    scenario(
        "What the dead had is given back by the claim that replaces them",
        acquire(ONE, **_TWO_OF_THREE, client="one"),
        acquire(TWO, at=22.0, permits=3, take=3, client="two"),
        acquire(TWO, at=23.0, permits=3, take=3, client="two"),
        act("release", 24.0, client="one"),
    ),
    scenario(
        "A row that does not count weights changes over once nobody holds",
        acquire(ONE, permits=3, client="one"),
        acquire(TWO, at=1.0, **_TWO_OF_THREE, client="two"),
        act("release", 2.0, client="one"),
        acquire(TWO, at=3.0, **_TWO_OF_THREE, client="two"),
        acquire(THREE, at=4.0, permits=3, client="three"),
        act("release", 5.0, client="three"),
    ),
    scenario(
        "A claim of two that is given up",
        acquire(ONE, permits=3, take=1, client="one"),
        acquire(TWO, at=1.0, **_TWO_OF_THREE, client="two", lost=1, given_up=True),
    ),
    scenario(
        "A release by string takes off what the row says",
        acquire(ONE, **_TWO_OF_THREE, client="one"),
        act("hand over", 1.0, lease_ms=60_000, string="first", client="one"),
        act("release by string", 2.0, string="first", permits=3, client="two"),
    ),
    scenario("A row whose sum is wrong is damaged", acquire(TWO, permits=3, take=1), before=_DAMAGED),
    scenario(
        "Who waits for two has a longer ticket; one who does not wait claims nothing that it needs",
        acquire(ONE, **_TWO_OF_THREE, client="one"),
        act("take a ticket", 1.0, ticket=T3),
        acquire(TWO, at=2.0, permits=3, take=1, client="two"),
        act("release", 3.0, client="one"),
        acquire(TWO, at=4.0, permits=3, take=1, client="two"),
    ),
]

T1, T2, T2B = make_ticket("aaaaaaaa", N + 30), make_ticket("bbbbbbbb", N + 10), make_ticket("bbbbbbbb", N + 16)
WAITING = [
    scenario("One who would wait claims a free lock: nobody may be waiting", acquire(TWO, wait=30.0)),
    scenario(
        "Take a ticket, renew it and return it",
        act("take a ticket", 0.0, ticket=T1),
        act("take a ticket", 0.1, ticket=T2),
        act("renew a ticket", 5.0, index=1, ticket=T2, renewed=T2B),
        act("return a ticket", 6.0, index=1, ticket=T2B),
        before=row(15),
    ),
    scenario("No ticket is taken of a lock that is free", act("take a ticket", 0.0, ticket=T1), before=free()),
    scenario(
        "Claim a released lock with the first ticket",
        act("claim with tickets", 0.0, owner=TWO, lease_ms=20_000, tickets=[T1]),
        before=free(waiters={"L": [{"S": T1}, {"S": T2}]}, heldMs={"N": "150"}),
    ),
]

HOLDS = [
    scenario(
        "Hand a lock over, and adopt it in another process: once",
        acquire(),
        act("hand over", 1.0, lease_ms=60_000, string="first"),
        act("adopt", 2.0, string="first", client="two"),
        act("adopt", 3.0, string="first", client="three"),
        act("release", 4.0, client="two"),
    ),
    scenario(
        "Resume a hold in each attempt, and release it by its string",
        acquire(),
        act("hand over", 1.0, lease_ms=60_000, string="first"),
        act("resume", 2.0, string="first", client="two"),
        act("resume", 10.0, string="first", client="three"),
        act("renew", 11.0, client="two"),
        act("release by string", 12.0, string="first", client="four"),
    ),
]


def recorded(asked: Json) -> Json:
    """The scenario with its exchanges, outcomes and the row that is left."""
    schema = SCHEMAS[asked["schema"]]
    table = Table(schema.partition_key, schema.sort_key)
    key = table.key(place_of(asked).item_key, False)

    def write(item: Json | None) -> None:
        table.store(key, item)

    def answer(exchange: Json, step: Json) -> Json:
        date = int(NOW + player.now)
        try:
            item = table.apply(exchange["operation"], exchange["request"])
        except ConditionFailed as refused:
            shown = {} if refused.item is None else {"Item": refused.item}
            reply = {"__type": REFUSED, "message": "The conditional request failed", **shown}
            return exchange | {"status": 400, "date": date, "reply": reply}
        if len(player.exchanges) < step.get("lost", 0):
            return exchange | {"status": None, "date": None, "reply": None}
        name = "Item" if exchange["operation"] == "GetItem" else "Attributes"
        return exchange | {"status": 200, "date": date, "reply": {} if item is None else {name: item}}

    if asked["before"] is not None:
        write(asked["before"])
    player = Player(asked, answer, write)
    steps = []
    for step in asked["steps"]:
        played = player.played(step)
        steps.append(step | played | {"row": next(iter(table.items()), None)})
    written = json.dumps(steps)
    draws_in_vain = any(step["act"] == "look" for step in steps)  # for a claim that it does not send
    nonces = [nonce for nonce in NONCES if draws_in_vain or nonce in written]
    return asked | {"nonces": nonces, "steps": steps}


def values() -> Json:
    """Texts and times, and what they mean."""
    versions = [
        *(f"L1:{digits}:{'0123456789abcdef' * 2}" for digits in ("1800000022000", "0000000000001")),
        *("L1:1800000022000:" + "A" * 32, "L1:180000002200:" + "a" * 33, "L2:1800000022000:" + "a" * 32),
        *("L1:1800000022000:" + "a" * 31, "5e0e7f0c-5fd3-4a3c-8f43-0a3fb3c0a6a1", "semaphore", ""),
    ]
    leases = [
        *(("JAVA", {"S": text}) for text in ("20000", "1", "0", "-1", "20s", "2e4", "semaphore")),
        ("JAVA", {"N": "20000"}),
        *(("GO", {"S": text}) for text in ("20s", "1500ms", "1m30s", "1h0m0.5s", "100us", "20", "0s", "-5s")),
        *(("PYTHON", {"N": text}) for text in ("20", "2.5", "1e1", "0")),
        ("PYTHON", {"S": "20"}),
    ]
    entries = [
        f"L1:1800000022000:{'a' * 32}:{rest}"
        for rest in ("20000:one", "20000:a:b#c", "0:one", "31622400001:one", "x:one", "20000")
    ]
    tickets = [
        *((make_ticket("aaaaaaaa", N + seconds), N) for seconds in (-1, 0, 35, 36)),
        *((make_ticket("~sleeper", N + seconds), N) for seconds in (-1, 935, 936)),
        *((make_ticket(name, N + 35, 100), N) for name in ("aaaaaaaa", "~sleeper")),
        (make_ticket("aaaaaaaa", N + 35, 2)[:-1], N),
        *(("aaaaaaaa" + make_ticket("", N)[:5], N), ("aaaaaaaa" + make_ticket("", N).upper(), N)),
    ]
    sleepers = [
        f'["one","task","token-1",{rest}]'
        for rest in ("null,86400", "3,null", "3,86400,null", "3,86400,1", "3,86400,3", "3,86400,4", "3,86400,0")
    ] + [f'["one","task","token-1",{rest}]' for rest in ('3,86400,"2"', "3,86400,true", "null,86400,1", "3,86400,2,0")]
    validities = [
        (20_000, (N + 22) * 1000, N),
        (20_000, (N + 20) * 1000, N),
        (20_000, (N + 22) * 1000, N + 30),
        (1_000, (N + 3) * 1000, N),
    ]
    looks: list[tuple[Json, tuple[float, int], tuple[float, int]]] = [
        ({"expiry_ms": (N + 22) * 1000}, (0.0, N), (0.0, N + 22)),
        ({"expiry_ms": (N + 22) * 1000}, (0.0, N), (1.0, N + 21)),
        ({"expiry_ms": (N + 22) * 1000 + 1}, (0.0, N), (1.0, N + 22)),
        ({"expiry_ms": None}, (0.0, N), (20.019, N + 20)),
        ({"expiry_ms": None}, (0.0, N), (20.02, N + 20)),
        ({"expiry_ms": None}, (0.0, N), (1.0, N + 22)),
        ({"expiry_ms": None}, (0.0, N), (1.0, N + 21)),
        ({"expiry_ms": (N + 90) * 1000}, (0.0, N), (20.02, N + 20)),
        *(({"expiry_ms": None, "lease_ms": 1_000_000}, (0.0, N), (1.0, N + seconds)) for seconds in (1002, 1003)),
    ]
    keys = [("orders", "o-1"), ("a#b", "c"), ("a", "b#c"), ("a\\", "b"), ("a\\#b", "c"), ("", "o-1")]
    results = ['{"a":1}', "sha256:" + "0" * 64 + ' {"a":1}', "sha256:" + "0" * 64 + " "]
    return {
        "versions": [{"version": text, "expiry_ms": expiry_of(text)} for text in versions],
        "leases": [{"schema": name, "value": value, "ms": SCHEMAS[name].read_lease(value)} for name, value in leases],
        "entries": [{"entry": text, "reads": _entry(text)} for text in entries],
        "tickets": [
            {"ticket": t, "expires": ticket_expiry(t), "date": date, "takes": ticket_take(t), "counts": counts(t, date)}
            for t, date in tickets
        ],
        "validity": [
            {"lease_ms": lease, "expiry_ms": expiry, "date": date, "seconds": round(validity(lease, expiry, date), 6)}
            for lease, expiry, date in validities
        ],
        "take_over": [
            {
                "lease_ms": 20_000,
                **held,
                "first_seen": {"monotonic": first[0], "date": first[1]},
                "now": {"monotonic": now[0], "date": now[1]},
                "allowed": _allowed(held["expiry_ms"], held.get("lease_ms", 20_000), first, now),
            }
            for held, first, now in looks
        ],
        "event_keys": [
            {"scope": scope, "key": key, "stored": scoped(scope, key) if scope else key} for scope, key in keys
        ],
        "sleepers": [{"entry": text, "reads": _sleeper(text)} for text in sleepers],
        "results": [
            {"stored": text, "result": result_parts(text)[0], "payload_hash": result_parts(text)[1]} for text in results
        ],
    }


def _sleeper(text: str) -> Json | None:
    sleeper = read_sleeper({"S": text})
    return None if sleeper is None else vars(sleeper)


def _entry(text: str) -> Json | None:
    entry = read_entry({"S": text})
    if entry is None:
        return None
    return {"version": entry.version, "expiry_ms": entry.expiry_ms, "lease_ms": entry.lease_ms, "prefix": entry.prefix}


class _Seen:
    def __init__(self, expiry_ms: int | None) -> None:
        self.version = "v"
        self.expiry_ms = expiry_ms


def _allowed(expiry_ms: int | None, lease_ms: int, first: tuple[float, int], now: tuple[float, int]) -> bool:
    seen = Observation("v", lease_ms, *first)
    return may_take_over(_Seen(expiry_ms), seen, ClockReading(now[0], now[0], 0.0), now[1])


SLEEPING = [
    scenario(
        "Two lie down behind a holder, one of them twice; a look marks the row, and a second one writes nothing",
        act("lie down", 0.0, holder="one", callback="token-1"),
        act("lie down", 1.0, holder="two", callback="token-2"),
        act("lie down", 2.0, holder="one", callback="token-3"),
        act("look", 3.0),
        act("look", 4.0),
        before=row(15, THREE),
    ),
    scenario(
        "The lock is released: the next look claims it for the first sleeper and calls it, and marks for the second",
        acquire(THREE, client="three"),
        act("lie down", 1.0, holder="one", callback="token-1"),
        act("lie down", 2.0, holder="two", callback="token-2"),
        act("look", 3.0),
        act("release", 4.0, client="three"),
        act("look", 5.0),
    ),
    scenario(
        "Nobody sleeps any more: the marks go, and the sleepers are read once more",
        act("lie down", 0.0, holder="one", callback="token-1"),
        act("look", 1.0),
        act("get up", 2.0, holder="one"),
        act("look", 3.0),
        before=row(15, THREE),
    ),
    scenario(
        "One who is awake was first: the sleepers take their place behind it",
        act("lie down", 0.0, holder="one", callback="token-1"),
        act("look", 1.0),
        before=free(waiters={"L": [{"S": T1}]}),
    ),
    scenario(
        "One who sleeps for two of three says so, and so does the ticket; who does not wait leaves it both",
        acquire(THREE, **_TWO_OF_THREE, client="three"),
        act("lie down", 1.0, holder="one", callback="token-1", **_TWO_OF_THREE),
        act("look", 2.0),
        acquire(TWO, at=3.0, permits=3, take=1, client="two"),
        act("release", 4.0, client="three"),
        acquire(TWO, at=5.0, permits=3, take=2, client="two"),
        act("look", 6.0),
        acquire(TWO, at=7.0, permits=3, take=1, client="two"),
    ),
    scenario(
        "The first of those who sleep takes one, the next all three: their ticket grows with the next look",
        acquire(THREE, permits=3, take=3, client="three"),
        act("lie down", 1.0, holder="one", callback="token-1", permits=3),
        act("lie down", 2.0, holder="two", callback="token-2", permits=3, take=3),
        act("look", 3.0),
        act("release", 4.0, client="three"),
        act("look", 5.0),
    ),
]

SCENARIOS = {
    "locks": LOCKS,
    "events": EVENTS,
    "permits": PERMITS,
    "weights": WEIGHTS,
    "waiting": WAITING,
    "holds": HOLDS,
    "sleeping": SLEEPING,
}


def files() -> dict[str, Json]:
    """What docs/row-format has to have, by the name of the file."""
    made = {name: {"format": FORMAT, "scenarios": [recorded(asked) for asked in of]} for name, of in SCENARIOS.items()}
    return made | {"values": {"format": FORMAT, **values()}}


def text_of(value: Any, indent: int = 0) -> str:
    """JSON in which what fits into a line is on one."""
    text = json.dumps(value)
    if indent + len(text) <= _WIDTH or not isinstance(value, (dict, list)):
        return text
    pad, inner = " " * indent, " " * (indent + 1)
    if isinstance(value, list):
        parts = [text_of(entry, indent + 1) for entry in value]
    else:
        parts = [f"{json.dumps(name)}: {text_of(entry, indent + 1)}" for name, entry in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{pad}{closing}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / f"{name}.json").write_text(text_of(content) + "\n")
