"""A fixed story as timeline, on a terminal and as an SVG: what must be there, not where to the pixel."""

import re
import xml.etree.ElementTree as ET

import pytest

from demo import svg, terminal
from demo.evidence import Evidence
from demo.timeline import Span, Story, tell
from demo.verify import verify

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def story(evidence: Evidence) -> Story:
    return tell(evidence)


@pytest.fixture
def picture(story: Story, evidence: Evidence) -> ET.Element:
    return ET.fromstring(svg.draw(story, verify(evidence)))


def texts(picture: ET.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_the_timeline_says_who_waited_held_and_was_frozen(story):
    assert story.seconds == 8
    assert set(story.spans) == {
        Span("invoices 1", "holding", 0.1, 3.0, "customer#a", "o-1"),
        Span("orders 1", "holding", 0.1, 1.5, "customer#b", "o-3"),
        Span("invoices 2", "waiting", 1.0, 4.5, "customer#a"),
        Span("orders 1", "frozen", 1.5, 7.8, "customer#b", "o-3"),
        Span("invoices 2", "holding", 4.5, 5.5, "customer#a", "o-2"),
        Span("invoices 2", "holding", 6.1, 7.0, "customer#a", "o-1"),
        Span("orders 2", "holding", 6.1, 7.0, "customer#b", "o-3"),
    }


def test_the_timeline_says_what_happened_when(story):
    assert [(mark.lane, mark.happening, mark.at) for mark in story.marks] == [
        ("orders 1", "renewed", 1.0),
        ("orders 2", "returned", 2.0),
        ("invoices 1", "killed", 3.0),
        ("report 1", "skipped", 4.1),
        ("invoices 2", "taken over", 4.5),
        ("orders 2", "taken over", 6.1),
        ("invoices 1", "duplicate", 6.4),
        ("orders 1", "lost", 7.8),
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_a_terminal_of_any_width_shows_every_lane_and_every_note_and_is_not_overrun(story, width):
    drawn = terminal.draw(story, width, colour=False)
    assert all(re.search(f"^{lane} ", drawn, re.MULTILINE) for lane in story.lanes)
    assert all(mark.note in drawn for mark in story.marks)
    assert max(map(len, drawn.splitlines())) <= width
    assert "\x1b" not in drawn
    assert "\x1b[31m✕\x1b[0m" in terminal.draw(story, width, colour=True)


def test_the_picture_can_be_read_aloud(picture):
    assert picture.get("role") == "img"
    names = (picture.get("aria-labelledby") or "").split()
    spoken = {element.get("id"): element.text or "" for element in picture if element.get("id")}
    assert list(spoken) == names == ["title", "description"]
    assert "at 3.0 s invoices 1: killed at its timeout" in spoken["description"]
    assert "taken over 1.5 s after the kill" in spoken["description"]
    assert "taken over 4.6 s after the freeze" in spoken["description"]


def test_the_picture_has_lanes_seconds_notes_and_the_verdict(picture, story):
    said = texts(picture)
    assert set(story.lanes) <= set(said)
    assert [f"{second} s" for second in range(9)] == [text for text in said if re.fullmatch(r"\d+ s", text)]
    assert {mark.note for mark in story.marks if mark.note} <= set(said)
    assert {"waiting", "renewed", "duplicate", "killed", "skipped", *story.keys} <= set(said)
    assert "Verified from the engine's own data" in said


def test_the_picture_keeps_within_its_bounds(picture):
    _, _, width, height = map(float, (picture.get("viewBox") or "").split())
    for box in picture.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height


def test_text_in_the_picture_is_escaped(evidence):
    evidence.events["e-1"] = "<o&1>"
    assert any("<o&1>" in text for text in texts(ET.fromstring(svg.draw(tell(evidence), []))))
