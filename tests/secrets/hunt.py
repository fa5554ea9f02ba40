"""Recognisable secrets, and a search for them in everything that a process shows of itself."""

import json
import logging
import pickle
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

# What lets others act in the application's name.
CREDENTIALS = {
    name: f"CANARY{number}{name.title().replace('-', '')}/+=xyz"
    for number, name in enumerate(("secret-key", "session-token", "container-token", "fetched-key", "fetched-token"))
}
# What the application stores or was sent: its own users' data.
CONTENTS = {
    name: f"CANARY{number}{name.title()}"
    for number, name in enumerate(("data", "attribute", "item", "event", "result"), 5)
}


_ENOUGH = 12  # characters of a secret that a text may not even begin with: it may have been cut


def forms(secret: str) -> list[str]:
    """The ways in which a text may show the beginning of a secret: as it is, as in JSON, a repr or an address, in hex,
    in base64 at any offset."""
    start = secret[:_ENOUGH]
    raw = start.encode()
    plain = {start, json.dumps(start)[1:-1], repr(start)[1:-1], quote(start, safe=""), raw.hex(), raw.hex().upper()}
    for offset in range(3):
        text = b64encode(b"\0" * offset + raw).decode()
        plain.add(text[4 if offset else 0 : len(text) // 4 * 4 - 4])
    return sorted(plain)


class Heap:
    """Everything that was shown, by where."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.values: list[tuple[str, str]] = []  # what callers get as values: a record's data is there by design

    def show(self, where: str, *texts: object) -> None:
        self.shown += [(where, str(text)) for text in texts]

    def show_object(self, where: str, found: object) -> None:
        """An object as a log, a debugger or another process would get it."""
        self.show(f"{where}: {type(found).__name__}", repr(found), found)
        try:
            self.values.append((f"{where}: pickle of {type(found).__name__}", repr(pickle.dumps(found))))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            self.show(f"{where}: no pickle", error)

    def show_error(self, where: str, error: BaseException) -> None:
        """An error with its causes, as a traceback, and with what each of them carries."""
        self.show(where, "".join(traceback.format_exception(error)))
        seen: BaseException | None = error
        while seen is not None:
            self.show_object(where, seen)
            self.show(where, repr(seen.args), *getattr(seen, "__notes__", ()))
            self.values.append((f"{where}: {type(seen).__name__}.__dict__", repr(vars(seen))))
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)

    def leaks(self, credentials: Iterable[str], contents: Iterable[str]) -> list[str]:
        """Where secrets were found. Credentials may be nowhere; contents only in values."""
        return [*_found([*self.shown, *self.values], credentials), *_found(self.shown, contents)]


def _found(heap: list[tuple[str, str]], secrets: Iterable[str]) -> list[str]:
    whole = "\0".join(text for _, text in heap)
    present = [form for secret in secrets for form in forms(secret) if form in whole]
    return [f"{form} in {where}: {text[:2_000]}" for form in present for where, text in heap if form in text]


class Log(logging.Handler):
    """Takes all records at every level, as text and as the JSON that Powertools' Logger writes."""

    OTHERS = frozenset({"boto3", "botocore", "urllib3"})  # what they log when they are told to log everything is theirs

    def __init__(self, heap: Heap) -> None:
        super().__init__(level=1)
        self._heap = heap
        self._formats = (logging.Formatter("%(message)s"), LambdaPowertoolsFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in self.OTHERS:
            return
        for form in self._formats:
            self._heap.show("log", form.format(record))
        self._heap.show("extras of the log", repr(vars(record)))


class Hook:
    """A hook that shows whatever it is told."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda subject: self._heap.show_object(f"hook {name}", subject)


def decoded(string: str) -> str:
    """A hand-over string with its content readable."""
    return string + b64decode(string.split(".")[1]).decode()
