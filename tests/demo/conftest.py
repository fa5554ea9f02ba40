"""A small story with everything in it: a kill, a freeze, a skip, a return, a duplicate, renewals, take-overs."""

import pytest

from demo.evidence import Change, Delivery, Entry, Evidence, Freeze


@pytest.fixture
def evidence() -> Evidence:
    return Evidence(
        environments=("invoices 1", "invoices 2", "orders 1", "orders 2", "report 1"),
        events={"e-1": "o-1", "e-2": "o-2", "e-3": "o-3", "e-4": "run 1"},
        deliveries=[
            Delivery("invoices 1", "r-1", ("e-1",), 0.0, 3.0, "killed", ("e-1",)),
            Delivery("invoices 2", "r-2", ("e-2",), 1.0, 5.5, "done"),
            Delivery("invoices 2", "r-3", ("e-1",), 6.05, 7.0, "done"),
            Delivery("orders 1", "r-4", ("e-3",), 0.0, 8.0, "returned", ("e-3",)),
            Delivery("orders 2", "r-5", ("e-3",), 2.0, 2.1, "returned", ("e-3",)),
            Delivery("orders 2", "r-6", ("e-3",), 6.05, 7.0, "done"),
            Delivery("report 1", "r-7", ("e-4",), 4.0, 4.1, "skipped"),
            Delivery("invoices 1", "r-8", ("e-2",), 6.3, 6.4, "duplicate"),
        ],
        freezes=[Freeze("orders 1", 1.5, 7.8)],
        changes=[
            Change(0.1, "granted", "customer#a", "invoices/r-1#1", 10),
            Change(0.1, "granted", "customer#b", "orders/r-4#2", 20),
            Change(1.0, "renewed", "customer#b", "orders/r-4#2", 20),
            Change(4.5, "granted", "customer#a", "invoices/r-2#3", 11, took_over=True),
            Change(5.5, "released", "customer#a", "invoices/r-2#3", 11),
            Change(6.1, "granted", "customer#a", "invoices/r-3#4", 12),
            Change(6.1, "granted", "customer#b", "orders/r-6#5", 21, took_over=True),
            Change(7.0, "released", "customer#a", "invoices/r-3#4", 12),
            Change(7.0, "released", "customer#b", "orders/r-6#5", 21),
        ],
        journal=[
            Entry(0.1, "entered", "e-1", "customer#a", "r-1", 10),
            Entry(0.1, "entered", "e-3", "customer#b", "r-4", 20),
            Entry(2.0, "refused", "e-3", "customer#b", "r-5", 0),
            Entry(4.5, "entered", "e-2", "customer#a", "r-2", 11),
            Entry(5.4, "left", "e-2", "customer#a", "r-2", 11),
            Entry(6.1, "entered", "e-1", "customer#a", "r-3", 12),
            Entry(6.1, "entered", "e-3", "customer#b", "r-6", 21),
            Entry(6.9, "left", "e-1", "customer#a", "r-3", 12),
            Entry(6.9, "left", "e-3", "customer#b", "r-6", 21),
            Entry(6.4, "duplicate", "e-2", "event#e-2", "r-8", 0),
            Entry(7.8, "lost", "e-3", "customer#b", "r-4", 0),
        ],
        ledger={"customer#a": ["e-2", "e-1"], "customer#b": ["e-3"]},
    )
