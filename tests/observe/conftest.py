"""The metrics on stdout, which CloudWatch counts, and a hook that keeps what it is told."""

import json
import threading
from typing import Any

import pytest

from lambda_lock.observe import metrics
from tests.support.clients import client, impatient, make, wired
from tests.support.fresh import fresh_process
from tests.support.rows import rows
from tests.support.waiting import wait_until

__all__ = ["client", "fresh_process", "impatient", "make", "rows", "wired"]

NAMESPACE = "shop/locks"


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """LAMBDA_LOCK_METRICS is set."""
    monkeypatch.setenv(metrics.METRICS_VARIABLE, NAMESPACE)


def counted(output: str) -> list[str]:
    """The metrics in the lines of an output, each line being what CloudWatch takes."""
    return [metric(line) for line in output.splitlines()]


def metric(line: str) -> str:
    """The metric that a line counts once, checked by the specification of the embedded metric format."""
    root = json.loads(line)
    assert line == line.strip()
    assert line.startswith("{")
    (directive,) = root["_aws"]["CloudWatchMetrics"]
    assert set(root["_aws"]) == {"Timestamp", "CloudWatchMetrics"}
    assert isinstance(root["_aws"]["Timestamp"], int)
    assert len(str(root["_aws"]["Timestamp"])) == 13  # ms
    assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
    assert 1 <= len(directive["Namespace"]) <= 1024
    for names in directive["Dimensions"]:
        assert len(names) <= 30
        for dimension in names:
            assert 1 <= len(dimension) <= 250
            assert isinstance(root[dimension], str)
            assert 1 <= len(root[dimension]) <= 1024
    (definition,) = directive["Metrics"]
    assert definition == {"Name": definition["Name"], "Unit": "Count"}
    assert root[definition["Name"]] == 1
    name: str = definition["Name"]
    return name


class Listener:
    """A hook that keeps what it is told, and on which thread."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.threads: set[tuple[str, bool]] = set()

    def _hear(self, event: str, subject: Any) -> None:
        thread = threading.current_thread()
        self.threads.add((thread.name, thread.daemon))
        self.heard.append((event, subject))

    def on_granted(self, lock: Any) -> None:
        self._hear("granted", lock)

    def on_lost(self, lock: Any) -> None:
        self._hear("lost", lock)

    def on_released(self, lock: Any) -> None:
        self._hear("released", lock)

    def on_not_granted(self, error: Any) -> None:
        self._hear("not_granted", error)

    def on_duplicate(self, error: Any) -> None:
        self._hear("duplicate", error)

    def events(self, at_least: int) -> list[str]:
        """The events that were heard, once there are so many."""
        wait_until(lambda: len(self.heard) >= at_least)
        return [event for event, _ in self.heard]
