"""Words of MLIR text, one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from importers.errors import ModelError

MAX_TOKENS = 10_000_000
_TOKEN = re.compile(
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


@dataclass(frozen=True, slots=True)
class Token:
    """One word; its kind is a group of the expression above, `"end"` after the last."""

    kind: str
    text: str
    start: int


class Tokens:
    """A text from which words are taken."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self._at = 0
        self._count = 0
        self.next = self._scan()

    def _scan(self) -> Token:
        while True:
            if self._at >= len(self.text) or self.text.startswith("{-#", self._at):
                return Token("end", "", len(self.text))
            match = _TOKEN.match(self.text, self._at)
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
        if text and token.text != text:
            raise self.expected(repr(text))
        if token.kind == "end":
            raise self.expected("more")
        self.next = self._scan()
        return token

    def kind(self, kind: str, what: str) -> Token:
        """The next word, which must be of a kind."""
        if self.next.kind != kind:
            raise self.expected(what)
        return self.take()

    def maybe(self, text: str) -> bool:
        """Whether the next word is this one, which is then taken."""
        if self.next.text != text or self.next.kind == "string":
            return False
        self.take()
        return True

    def at(self, *texts: str) -> bool:
        return self.next.kind != "string" and self.next.text in texts

    def expected(self, what: str) -> ModelError:
        found = "the end of the text" if self.next.kind == "end" else repr(self.next.text[:40])
        return self.fault(f"expected {what}, found {found}", self.next.start)

    def line(self, start: int | None = None) -> int:
        return self.text.count("\n", 0, self.next.start if start is None else start) + 1

    def fault(self, what: str, start: int | None = None) -> ModelError:
        return ModelError(
            what,
            f"{self.where}, line {self.line(start)}",
            "write the text again with jax.jit(f).lower(...).as_text()",
        )
