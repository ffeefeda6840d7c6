"""Words of a program's text, one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from importers.errors import ModelError

MAX_TOKENS = 10_000_000


_WORDS = re.compile(
    r"""(?P<space>(?:\s++|//[^\n]*+)++)
    |(?P<type>(?:tensor|vector)<(?:[^<>"\n]|<(?:[^<>"\n]|<[^<>"\n]*+>)*+>){0,4000}+>)
    |(?P<dense>dense(?:_resource)?<(?:"[^"]*+"|[^<>"]*+)>)
    |(?P<string>"(?:[^"\\\n]|\\.)*+")
    |(?P<value>%[\w$.\-]++(?:\#\d++)?)
    |(?P<symbol>@(?:[\w$.\-]++|"[^"\n]*+"))
    |(?P<alias>[\#!^][\w$.]++)
    |(?P<number>-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?))
    |(?P<word>[A-Za-z_][\w$.]*+)
    |(?P<mark>->|::|[\[\](){}<>=,:*+?/|-])
    """,
    re.VERBOSE,
)
"""One group for each kind of word; `space` is passed over, text in quotes is a `string`."""
_ENDS = "{-#"
"""Mark before which a text ends."""
AGAIN = "write the text again with jax.jit(f).lower(...).as_text()"


@dataclass(frozen=True, slots=True)
class Token:
    """One word; its kind is a group of the expression, `"end"` after the last."""

    kind: str
    text: str
    start: int


class Tokens:
    """A text from which words are taken, with the next one in sight."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self._at = self._count = 0
        self._line, self._seen = 1, 0
        self.next = self._scan()

    def _scan(self) -> Token:
        while True:
            if self._at >= len(self.text) or self.text.startswith(_ENDS, self._at):
                return Token("end", "", len(self.text))
            match = _WORDS.match(self.text, self._at)
            if match is None:
                shown = self.text[self._at : self._at + 20].split("\n")[0]
                raise self.fault(f"{shown!r} is no word of MLIR", self._at)
            self._at = match.end()
            if match.lastgroup != "space":
                break
        self._count += 1
        if self._count > MAX_TOKENS:
            raise self.fault(f"the text has more than {MAX_TOKENS} words", match.start())
        return Token(str(match.lastgroup), match.group(), match.start())

    def take(self, text: str = "") -> Token:
        """The next word.

        Raises:
            ModelError: another one was expected.
        """
        token = self.next
        if (text and token.text != text) or token.kind == "end":
            raise self.expected(repr(text) if text else "more")
        self.next = self._scan()
        return token

    def maybe(self, text: str) -> bool:
        """Whether the next word is this one, which is then taken."""
        if not self.at(text):
            return False
        self.take()
        return True

    def at(self, *texts: str) -> bool:
        return self.next.kind != "string" and self.next.text in texts

    def kind(self, kind: str, what: str) -> Token:
        """The next word, which must be of a kind."""
        if self.next.kind != kind:
            raise self.expected(what)
        return self.take()

    def line(self) -> int:
        """Line of the next word; counted onwards, for a text may be long."""
        start = self.next.start
        self._line += self.text.count("\n", self._seen, start)
        self._seen = start
        return self._line

    def expected(self, what: str) -> ModelError:
        """That something else stands where this was expected."""
        found = "the end of the text" if self.next.kind == "end" else repr(self.next.text[:40])
        return self.fault(f"expected {what}, found {found}")

    def fault(self, what: str, start: int | None = None) -> ModelError:
        """Something that is wrong at the next word, or where it is said."""
        place = self.next.start if start is None else start
        line = self.text.count("\n", 0, place) + 1
        return ModelError(what, f"{self.where}, line {line}", AGAIN)
