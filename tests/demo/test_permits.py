"""The picture of a semaphore: what must be in it, and that a run gives one."""

import re
import xml.etree.ElementTree as ET

import pytest

from demo.permits import Job, Plan, draw, faults, play, taken
from rig.engine import ROOT, Ministack

SVG = "{http://www.w3.org/2000/svg}"
# Two permits. The second job is killed at 3; the third gets in at 4, and the fourth for the second after 6.
JOBS = [Job(0, 0, 4, 1), Job(1, 1, 3, 2, until=6), Job(2, 4, 8, 3), Job(2.5, 6.2, 7, 4)]


def texts(picture: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]


def test_a_killed_job_counts_until_its_lease_is_over():
    assert taken(JOBS) == [(0, 1), (1, 2), (4, 1), (4, 2), (6, 1), (6.2, 2), (7, 1), (8, 0)]
    assert faults(JOBS, 2) == []


def test_one_too_many_a_token_twice_and_a_wrong_order_are_faults():
    assert faults(JOBS, 1) == ["2 permits were taken at once, of 1"]
    assert faults([JOBS[0], Job(1, 1, 3, 1)], 2) == ["two grants have one token"]
    assert faults([Job(0, 2, 3, 5), Job(1, 1, 3, 4)], 2) == ["they were not let in in the order in which they asked"]


def test_the_picture_shows_each_job_and_says_all_of_it_in_words():
    picture = draw(JOBS, 2)
    assert [text for text in texts(picture) if text.startswith("job ")] == ["job 1", "job 2", "job 3", "job 4"]
    assert "killed; its lease runs on" in texts(picture)
    assert "never more than 2" in texts(picture)
    words = ET.fromstring(picture).findtext(f"{SVG}desc")
    assert words is not None
    assert "Job 2 asks at 1.0 s, gets in at 1.0 s, is killed at 3.0 s, its lease ends at 6.0 s." in words
    assert picture.count("prefers-color-scheme:dark") == 2


def test_the_picture_in_the_docs_is_one_of_a_run_without_faults():
    picture = (ROOT / "docs" / "semaphores.svg").read_text()
    words = ET.fromstring(picture).findtext(f"{SVG}desc") or ""
    found = re.findall(r"asks at ([\d.]+) s, gets in at ([\d.]+) s, (.*?)\.(?: |$)", words)
    assert len(found) == len([text for text in texts(picture) if text.startswith("job ")]) > 3
    assert "is killed at" in words


@pytest.mark.long
@pytest.mark.ministack_only
def test_a_run_has_no_faults_and_a_killed_job_is_replaced():
    plans = [Plan(0, 0.3, killed=True), Plan(0.1, 0.2), Plan(0.2, 0.2), Plan(0.3, 0.2)]
    with Ministack() as engine:
        jobs = play(engine, plans, permits=1, lease=1)
    assert [fault for fault in faults(jobs, 1) if "order" not in fault] == []  # a busy machine may start them late
    assert [job.until is not None for job in jobs] == [True, False, False, False]
    assert all(job.entered >= jobs[0].freed for job in jobs if job.token > jobs[0].token)
