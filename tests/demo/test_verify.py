"""The demo's judgement: a good run passes, and each kind of violation in its input is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demo.__main__ import BROKEN, HOLDS, report
from demo.evidence import Change, Entry, Evidence
from demo.verify import verify


def wrong(evidence: Evidence) -> str:
    return "\n".join(text for check in verify(evidence) for text in check.wrong)


def alter(evidence: Evidence, line: Entry, **changes: object) -> None:
    evidence.journal[evidence.journal.index(line)] = replace(line, **changes)  # type: ignore[arg-type]


def entries(evidence: Evidence, what: str, event: str) -> list[Entry]:
    return [line for line in evidence.journal if (line.what, line.event) == (what, event)]


def test_a_run_without_a_fault_holds_in_every_check(evidence):
    assert [check.wrong for check in verify(evidence)] == [()] * 5


def test_two_handlers_inside_at_once_are_found(evidence):
    alter(evidence, entries(evidence, "left", "e-2")[0], at=6.5)
    assert "customer#a: o-2 and o-1 were inside at once, 6.10 s to 6.50 s" in wrong(evidence)


def test_one_who_went_in_before_the_other_was_killed_is_found(evidence):
    alter(evidence, entries(evidence, "entered", "e-2")[0], at=2.9)
    assert "customer#a: o-1 and o-2 were inside at once, 2.90 s to 3.00 s" in wrong(evidence)


def test_a_frozen_handler_that_finished_after_its_lock_was_taken_over_is_found(evidence):
    alter(evidence, entries(evidence, "lost", "e-3")[0], what="left")
    assert "customer#b: o-3 and o-3 were inside at once" in wrong(evidence)


def test_one_whose_invocation_is_unknown_counts_as_inside_for_ever(evidence):
    del evidence.deliveries[0]
    assert "customer#a: o-1 and o-2 were inside at once" in wrong(evidence)


def _lose_update(evidence: Evidence) -> None:
    evidence.ledger["customer#a"].remove("e-2")


def _write_twice(evidence: Evidence) -> None:
    evidence.ledger["customer#a"].append("e-2")


def _never_do(evidence: Evidence) -> None:
    evidence.ledger["customer#b"].clear()
    evidence.journal.remove(entries(evidence, "left", "e-3")[0])


def _do_what_was_refused(evidence: Evidence) -> None:
    evidence.ledger["report"] = ["e-4"]


def _do_what_was_not_sent(evidence: Evidence) -> None:
    evidence.ledger["report"] = ["e-9"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_lose_update, "o-2 was finished 1 times, the ledger has it 0 times"),
        (_write_twice, "o-2 is in the ledger 2 times"),
        (_never_do, "o-3 was neither done nor refused for good"),
        (_do_what_was_refused, "run 1 was done although it was refused for good"),
        (_do_what_was_not_sent, "e-9 is in the ledger, but was never sent"),
    ],
)
def test_an_event_that_was_not_done_once_or_refused_is_found(evidence, spoil, said):
    spoil(evidence)
    assert said in wrong(evidence)


def test_a_token_that_does_not_rise_is_found(evidence):
    evidence.changes[3] = replace(evidence.changes[3], token=10)
    assert "customer#a: token 10 was granted after 10" in wrong(evidence)


def test_a_token_that_the_table_never_granted_is_found(evidence):
    alter(evidence, entries(evidence, "entered", "e-2")[0], token=99)
    assert "customer#a: o-2 went in with token 99, which the table did not grant it" in wrong(evidence)


def test_a_lock_taken_from_a_holder_that_was_alive_is_found(evidence):
    evidence.changes[3] = replace(evidence.changes[3], at=2.5)
    assert "customer#a: token 11 was taken from a holder that was alive, at 2.50 s" in wrong(evidence)


def test_a_lock_taken_from_an_unknown_holder_is_found(evidence):
    evidence.changes.insert(0, Change(0.0, "granted", "customer#c", "invoices/r-1#9", 5, took_over=True))
    assert "customer#c: token 5 was taken from a holder that was alive" in wrong(evidence)


def test_a_story_without_its_kill_and_freeze_is_no_proof(evidence):
    evidence.freezes.clear()
    assert "the story was to have a killed and a frozen holder replaced" in wrong(evidence)


def test_a_story_without_its_duplicate_is_no_proof(evidence):
    evidence.journal.remove(entries(evidence, "duplicate", "e-2")[0])
    assert "the story was to have a duplicate dropped" in wrong(evidence)


def test_a_lock_that_is_still_held_is_found(evidence):
    evidence.held.append("customer#b")
    assert wrong(evidence) == "customer#b is still held"


def test_a_violation_ends_the_demo_with_a_message_and_status_1(evidence, tmp_path, capsys):
    assert report(evidence, tmp_path / "demo.svg", as_json=False) == HOLDS
    capsys.readouterr()
    _write_twice(evidence)
    assert report(evidence, tmp_path / "demo.svg", as_json=False) == BROKEN
    said = capsys.readouterr()
    assert "✕ every event done once" in said.out
    assert "verification failed:\n  o-2 is in the ledger 2 times" in said.err
    assert "This does not hold" in (tmp_path / "demo.svg").read_text()
