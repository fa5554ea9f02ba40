"""Sections of a page, between comments."""

from __future__ import annotations

import re


class NoPlace(Exception):
    """The page has no pair of comments for a section. The message names it."""


def place(page: str, name: str, text: str) -> str:
    """The page with ``text`` between the comments of the section ``name``."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise NoPlace(f"the page needs one pair of comments, {begin.strip()} and {end}")
    return re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: begin + text + end, page, flags=re.DOTALL)
