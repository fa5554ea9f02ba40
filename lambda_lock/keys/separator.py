"""Keeps several values in one key apart."""

from __future__ import annotations

from itertools import count  # loaded by functools

from .values import MAX_KEY_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")

_BETWEEN = "#"  # put between fields that are adjacent in a template


class Separator:
    """The literal after a field. It keeps the field's value apart from what follows: other values make other keys.

    Where the literal begins within a value, an escape character is put before it. So the field ends at the first
    literal without one. With ``#``, the value ``a#b`` is written ``a\\#b``. "Within" includes a literal that begins in
    the value and ends after it, such as ``::`` after ``a:``. Escape characters right before such a place, or at the end
    of the value, are doubled. All others stay as they are.

    Two facts follow, and with them a value can be read back from its key:

    - The literal does not contain the escape character. So each place where the literal begins in the written value is
      a place where it began in the value, and an odd number of escape characters precedes it. An even number precedes
      the end of the value.
    - Read the written value backwards. What follows a place says whether the literal begins there. That says how many
      of the escape characters before it belong to the value.
    """

    __slots__ = ("_escape", "literal")

    def __init__(self, literal: str) -> None:
        self.literal = literal
        self._escape = next(chr(code) for code in count(ord("\\")) if chr(code) not in literal)

    def escaped(self, value: str) -> str:
        text = value + self.literal
        if text.find(self.literal) == len(value) and not value.endswith(self._escape):
            return value
        if len(value) > MAX_KEY_BYTES:
            return value  # too long for a key even without escapes
        written, escapes = [], ""  # escapes: the escape characters right before the place
        for place, character in enumerate(value):
            if text.startswith(self.literal, place):
                written.append(escapes + self._escape)
            written.append(character)
            escapes = escapes + character if character == self._escape else ""
        return "".join(written) + escapes


def separated(parts: Iterable[str | T]) -> list[tuple[str | T, Separator | None]]:
    """The literals and fields, each field but the last with the separator that follows it.

    The last field needs none: it ends at the end of the key, or before the final literal. Adjacent fields are written
    as if there were a ``#`` between them.
    """
    found: list[str | T] = []
    for part in parts:
        if part == "":
            continue
        if found and isinstance(part, str) and isinstance(found[-1], str):
            found[-1] += part
            continue
        if found and not isinstance(part, str) and not isinstance(found[-1], str):
            found.append(_BETWEEN)
        found.append(part)
    last = max((index for index, part in enumerate(found) if not isinstance(part, str)), default=0)
    return [
        (part, Separator(str(found[index + 1])) if index < last and not isinstance(part, str) else None)
        for index, part in enumerate(found)
    ]


def joined(parts: Iterable[tuple[str | T, Separator | None]], text_of: Callable[[T], str]) -> str:
    """The key made of the parts that `separated` returned, with the text of each field."""
    texts = []
    for part, separator in parts:
        text = part if isinstance(part, str) else text_of(part)
        texts.append(text if separator is None else separator.escaped(text))
    return "".join(texts)
