"""Words of a program's text, one after the other."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from importers.errors import ModelError

MAX_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class Language:
    """How the words of a text are told."""

    name: str
    words: re.Pattern[str]
    """One group for each kind of word; `space` is passed over, text in quotes is a `string`."""
    again: str
    """How a text of it is written anew."""
    ahead: int = 1
    """Words in sight."""
    ends: str | None = None
    """Mark before which a text ends."""


MLIR = Language(
    "MLIR",
    re.compile(
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
    ),
    "write the text again with jax.jit(f).lower(...).as_text()",
    ends="{-#",
)
JAXPR = Language(
    "a jaxpr",
    re.compile(
        r"""(?P<space>(?:\s++|\#[^\n]*+|//[^\n]*+)++)
        |(?P<type>(?:key<\w++>|[A-Za-z]\w*+)\[[\d,\s]*+\](?:\{[^{}\n]*+\})?)
        |(?P<string>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")
        |(?P<number>(?:[+-](?:inf|nan)\b|[+-]?0x[0-9a-fA-F]++|[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?))
        |(?P<word>[A-Za-z_][\w.]*+(?:-[a-z]++)*+)
        |(?P<object><[^<>\n]*+(?:<[^<>\n]*+>[^<>\n]*+)*+>)
        |(?P<mark>[\[\](){}=,:;.*|])
        """,
        re.VERBOSE,
    ),
    "write the text again: str(jax.make_jaxpr(f)(...)), or python -m importers.jax_trace",
    ahead=4,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word; its kind is a group of the language's expression, `"end"` after the last."""

    kind: str
    text: str
    start: int


class Tokens:
    """A text from which words are taken, with some more in sight."""

    def __init__(self, text: str, where: str, language: Language) -> None:
        self.text, self.where, self._language = text, where, language
        self._at = self._count = 0
        self._line, self._seen = 1, 0
        self._ahead = deque(self._scan() for _ in range(language.ahead))

    @property
    def next(self) -> Token:
        return self._ahead[0]

    def peek(self, count: int) -> Token:
        """The word so many behind the next one, as far as words are in sight."""
        return self._ahead[count]

    def _scan(self) -> Token:
        ends = self._language.ends
        while True:
            if self._at >= len(self.text) or (ends and self.text.startswith(ends, self._at)):
                return Token("end", "", len(self.text))
            match = self._language.words.match(self.text, self._at)
            if match is None:
                shown = self.text[self._at : self._at + 20].split("\n")[0]
                raise self.fault(f"{shown!r} is no word of {self._language.name}", self._at)
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
        self._ahead.popleft()
        self._ahead.append(self._scan())
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
        return ModelError(what, f"{self.where}, line {line}", self._language.again)
