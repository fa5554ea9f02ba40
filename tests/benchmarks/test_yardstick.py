"""The thinnest clients and this library take turns at one server that answers as DynamoDB does."""

import os

from benchmarks.yardstick import count
from benchmarks.yardstick.turns import NAMES
from rig.engine import ROOT, client_environment


def test_each_client_claims_and_releases_in_turn(monkeypatch):
    monkeypatch.setattr(count, "_TIMED", 2)
    with count.served() as url:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **client_environment(url)}
        taken = count.cpu(environment | {"BENCHMARK_TABLE": "lambda_lock", "AWS_SESSION_TOKEN": "token"})
    assert set(taken) == set(NAMES)
    assert all(taken.values())
