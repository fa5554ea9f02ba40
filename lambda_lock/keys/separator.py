"""Several values in one key, kept apart."""

from __future__ import annotations

from itertools import count  # loaded by functools

from .values import MAX_KEY_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")

_BETWEEN = "#"  # stands between fields that a template has side by side


class Separator:
    """The literal after a field. It keeps the field's values apart from what follows: other values, other keys.

    Where the literal begins within a value it gets an escape character, so the field ends at the first literal without
    one: with ``#``, the value ``a#b`` is written ``a\\#b``. "Within" includes a literal that begins in the value and
    ends beyond it: ``::`` after ``a:``. Escape characters right before such a place, or at the end of the value, are
    doubled; all others stay. So there are two facts, and a value can be read back from its key:

    - The literal has no escape character in it. A place where it begins in the written value is one where it began in
      the value, and has an odd number of escape characters before it. The end of the value has an even number.
    - Read backwards, what follows a place says whether the literal begins there, and thereby how many of the escape
      characters before it belong to the value.
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
            return value  # too long for a key as it is
        written, escapes = [], ""  # these stand right before the place
        for place, character in enumerate(value):
            if text.startswith(self.literal, place):
                written.append(escapes + self._escape)
            written.append(character)
            escapes = escapes + character if character == self._escape else ""
        return "".join(written) + escapes


def separated(parts: Iterable[str | T]) -> list[tuple[str | T, Separator | None]]:
    """Literals and fields, each field but the last with the separator that follows it.

    The last one ends where the key ends, or where the literal after it does. Fields that nothing separates are written
    as if a ``#`` stood between them.
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
    """The key of what `separated` gave, with the text of each field."""
    texts = []
    for part, separator in parts:
        text = part if isinstance(part, str) else text_of(part)
        texts.append(text if separator is None else separator.escaped(text))
    return "".join(texts)
