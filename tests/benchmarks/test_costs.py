"""What operations cost: the tables in the docs are compared with what an engine charges."""

import pytest

from benchmarks.costs.measure import HOLDERS, semaphore
from benchmarks.costs.measure import bench as on_a_bench
from benchmarks.costs.report import measure, pages
from lambda_lock import deduplicate
from rig.engine import ROOT
from rig.meter import size


@pytest.mark.ministack_only  # DynamoDB Local says 2 units for a transaction of any number of items
def test_the_tables_in_the_docs_are_what_is_measured(engine, table):
    for page, text in pages(measure(engine, table)).items():
        assert page.read_text() == text, f"{page.name} is out of date: run 'python -m benchmarks.costs --write'"


@pytest.mark.parametrize("holders", HOLDERS)
def test_what_the_engine_charges_is_what_the_size_of_the_row_says(holders, engine, table):
    with on_a_bench(engine, table) as bench:
        costs, full = semaphore(bench, holders)
    by_size = -(-full // 1024)
    assert [costs[name].write_units for name in ("free", "renewal", "release", "refused")] == [by_size] * 4
    assert costs["waiter"].read_units == -(-full // 4096)
    # A few bytes more or less, such as digits of a number, do not change the figures in the docs.
    assert all(abs(full - edge) > 8 for edge in (1024 * by_size, 1024 * (by_size - 1)))


def test_what_events_and_forgetting_them_take_is_what_the_page_of_costs_says(engine, table):
    page = (ROOT / "docs" / "costs.md").read_text()
    with on_a_bench(engine, table) as bench:
        client = bench.client()
        once = deduplicate("{key}", scope="", client=client)(lambda key: None)
        for row, act in (
            ("a new event", lambda: once("a")),
            ("a duplicate", lambda: once("a")),
            ("`forget`, of an event that is done", lambda: client.forget("a")),
            ("`forget`, of any other", lambda: client.forget("a")),
        ):
            cost = bench.cost(act)
            assert f"| {row} | {cost.write_units:g} | {cost.read_units:g} |" in page


def test_a_row_is_measured_by_dynamodb_s_rules():
    assert size({"key": {"S": "ä"}}) == 3 + 2
    assert size({"n": {"N": "1700"}}) == 1 + 1 + 1
    assert size({"n": {"N": "-123"}}) == 1 + 2 + 1
    assert size({"m": {"M": {"ab": {"S": "xyz"}}}}) == 1 + 3 + 1 + 2 + 3
    assert size({"l": {"L": [{"S": "xyz"}]}}) == 1 + 3 + 1 + 3
