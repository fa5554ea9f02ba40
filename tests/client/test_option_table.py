"""The options of acquire: all that takes them has those of the table (client/options.py), with the same defaults.

The last tests add an option to a copy of the library, to count how many places that takes.
"""

import ast
import asyncio
import inspect
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, deduplicate, with_lock
from lambda_lock.client import options
from lambda_lock.client.options import ACQUIRE, EVENT, LOCK, LOCKS, RECORD, SEVERAL, TABLE, names_of
from lambda_lock.testing import in_memory
from rig.engine import ROOT

#: The bundle for ``**options`` of what takes options, and those that its function lists itself.
BUNDLES = {
    ACQUIRE: ("AcquireOptions", {"wait"}),
    SEVERAL: ("SeveralOptions", {"wait", "sort_key"}),
    LOCK: ("QueueOptions", {"wait", "take"}),  # a take of with_lock may be a function: decorators/types.py has it
    LOCKS: ("SeveralDecoratorOptions", {"wait", "sort_key"}),
    EVENT: ("DecoratorOptions", {"wait"}),
    RECORD: ("CommonOptions", {"wait"}),
}
LISTING: dict[str, Callable[..., object]] = {
    ACQUIRE: LockClient.acquire,
    SEVERAL: LockClient.acquire_all,
    LOCK: with_lock,
}
#: The defaults that differ: a duplicate is not worth a wait.
OWN: dict[str, dict[str, object]] = {"deduplicate": {"wait": 0}}


def listed(function: Callable[..., object]) -> dict[str, object]:
    """The options of a function, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def bundles() -> dict[str, set[str]]:
    """The names in each TypedDict of the module, with those that it inherits."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(options))):
        if isinstance(node, ast.ClassDef) and node.keywords:  # total=False
            own = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
            found[node.name] = own.union(*(found.get(ast.unparse(base), set()) for base in node.bases))
    return found


def test_acquire_has_the_options_of_the_table_in_its_order():
    assert list(listed(LockClient.acquire).items()) == [(name, option.default) for name, option in TABLE.items()]


@pytest.mark.parametrize("taker", LISTING)
def test_what_lists_the_options_lists_those_that_the_table_gives_it(taker):
    assert listed(LISTING[taker]).keys() & TABLE.keys() == {*names_of(taker)}


@pytest.mark.parametrize("function", [LockClient.acquire_all, with_lock, deduplicate], ids=lambda each: each.__name__)
def test_who_shares_an_option_with_acquire_has_its_default(function):
    shared = {name: default for name, default in listed(function).items() if name in TABLE}
    assert "wait" in shared
    assert shared == {name: TABLE[name].default for name in shared} | OWN.get(function.__name__, {})


def test_adopt_and_resume_have_the_same_options_among_them_all_that_name_a_hold():
    assert listed(LockClient.adopt) == listed(LockClient.resume)
    assert bundles()["HoldParts"] < listed(LockClient.resume).keys()


@pytest.mark.parametrize("taker", BUNDLES)
def test_a_bundle_has_the_options_that_the_table_gives_what_it_is_for(taker):
    bundle, left_out = BUNDLES[taker]
    assert bundles()[bundle] == {*names_of(taker)} - left_out


@pytest.mark.parametrize(
    "function", [LockClient.acquire, LockClient.acquire_all, LockClient.rate_limit, with_lock, deduplicate]
)
def test_a_signature_has_no_parameter_for_what_is_unknown(function):
    assert not {"unknown", "more"} & inspect.signature(function).parameters.keys()


INTERNAL = ("method", "window", "owner", "prefix", "session")
OF_ONE = ("data", "permits", "holder", "reentrant")
TAKERS = ("acquire", "try_acquire", "acquire_all", "try_acquire_all", "adopt", "resume", "release")


@pytest.mark.parametrize(
    ("name", "taker"),
    [
        *((name, taker) for name in INTERNAL for taker in TAKERS[: 4 if name == "owner" else None]),  # a part of a hold
        *((name, "acquire_all") for name in OF_ONE),
    ],
)
def test_what_is_no_option_of_it_is_refused_by_name(name, taker):
    first: Any = ["a"] if "all" in taker else "a"
    called = taker.removeprefix("try_")
    given: Mapping[str, Any] = {name: None}

    async def awaited(client: LockClient) -> None:
        await getattr(AsyncLockClient.over(client), taker)(first, **given)

    with in_memory(), LockClient("locks") as client:
        for act in (lambda: getattr(client, taker)(first, **given), lambda: asyncio.run(awaited(client))):
            with pytest.raises(TypeError, match=rf"{called}\(\) got an unexpected keyword argument '{name}'"):
                act()


@pytest.mark.parametrize("wrong", [{"timeout": 1}, {"holder": "work"}], ids=lambda each: next(iter(each)))
def test_a_lock_is_not_entered_again_with_an_option_that_does_not_fit(wrong):
    async def enter(tasks: AsyncLockClient) -> None:
        await tasks.acquire("a", reentrant=True, **wrong)

    with in_memory(), LockClient("locks") as client, client.acquire("a", reentrant=True):
        with pytest.raises((TypeError, LockArgumentError), match=next(iter(wrong))):
            client.acquire("a", reentrant=True, **wrong)
        with pytest.raises((TypeError, LockArgumentError), match=next(iter(wrong))):
            asyncio.run(enter(AsyncLockClient.over(client)))


#: Where an option is written that everything takes, besides what it does: (file, words before it, its own words).
EDITS = (
    ("client/options.py", "refresh_period: float | None\n", "        colour: str | None\n"),  # the bundles
    (
        "client/options.py",
        "TABLE = {\n",
        '    "colour": Option(None, lambda name, value: checks.of_kind(name, value, str, "a str"), *_ALL),\n',
    ),
    ("client/lock_client.py", "key: str,\n        *,\n", "        colour: str | None = None,\n"),  # acquire
    ("client/lock_client.py", "keys: Iterable[str],\n        *,\n", "        colour: str | None = None,\n"),
    ("decorators/with_lock.py", "key_jmespath: str | None = None,\n", "    colour: str | None = None,\n"),
)
USES = """
import asyncio
from lambda_lock import AsyncLockClient, LockClient, deduplicate, with_lock
from lambda_lock.batch import process_sqs
from lambda_lock.client.options import Terms
from lambda_lock.testing import in_memory

seen = []
made = Terms.__init__
def noted(self, *arguments):
    made(self, *arguments)
    seen.append(self.asked["colour"])
Terms.__init__ = noted

async def awaited(client, method, key):
    await (await getattr(AsyncLockClient.over(client), method)(key, colour="red")).release()

record = {"messageId": "m", "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:1:q", "body": "{}"}
with in_memory(), LockClient("locks") as client:
    for method, key in (("acquire", "a"), ("try_acquire", "a"), ("acquire_all", ["a"]), ("try_acquire_all", ["a"])):
        getattr(client, method)(key, colour="red").release()
        asyncio.run(awaited(client, method, key))
    try:
        client.acquire("a", colour=5)
    except TypeError as error:
        assert str(error) == "colour must be a str, not 5 (int)", error
    for decorator, key in ((with_lock, "a"), (with_lock, ["a"]), (deduplicate, "{event}")):
        decorator(key, colour="red", client=client)(lambda event: None)("e")
    process_sqs({"Records": [record]}, lambda record: None, context=None, lock_key="b", colour="red", client=client)
assert len(seen) >= 12, seen
assert set(seen) == {"red"}, seen
"""


def test_an_option_that_everything_takes_is_added_in_five_places(tmp_path):
    assert len(EDITS) <= 5
    shutil.copytree(ROOT / "lambda_lock", tmp_path / "lambda_lock", ignore=shutil.ignore_patterns("__pycache__"))
    for path, before, words in EDITS:
        file = tmp_path / "lambda_lock" / path
        text = file.read_text()
        assert before in text, before
        file.write_text(text.replace(before, before + words, 1))
    said = subprocess.run([sys.executable, "-c", USES], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
