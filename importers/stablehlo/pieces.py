"""Pieces of operations that are written in a way of their own."""

from __future__ import annotations

from collections.abc import Mapping

from importers.stablehlo.attributes import unquoted
from importers.stablehlo.program import Attribute, Dense
from importers.stablehlo.tokens import Tokens


def attribute_alone(tokens: Tokens) -> Attribute:
    """A value whose type is that of the result."""
    if tokens.next.kind == "dense":
        return Dense(tokens.take().text)
    if tokens.next.kind == "string":
        return unquoted(tokens.take().text)
    return tokens.take().text


def ranges(tokens: Tokens) -> tuple[Attribute, ...]:
    """`[0:1, 2:8:2]`: start, end and step of each dimension."""
    tokens.take("[")
    found: list[Attribute] = []
    while not tokens.maybe("]"):
        if found:
            tokens.take(",")
        parts: list[Attribute] = [_whole(tokens)]
        while tokens.maybe(":"):
            parts.append(_whole(tokens))
        if len(parts) not in {2, 3}:
            raise tokens.expected("a range start:end")
        found.append(tuple(parts) if len(parts) == 3 else (*parts, 1))
    return tuple(found)


def _whole(tokens: Tokens) -> int:
    text = tokens.kind("number", "a whole number").text
    if not text.lstrip("-").isdigit() or len(text) > 19:
        raise tokens.fault(f"{text[:40]!r} is no position")
    return int(text)


def letters(tokens: Tokens) -> Mapping[str, Attribute]:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`: what each dimension of a convolution is."""
    found: dict[str, Attribute] = {}
    for side in ("input", "kernel", "output"):
        tokens.take("[")
        letters: list[Attribute] = []
        while not tokens.maybe("]"):
            if letters:
                tokens.take(",")
            letters.append(tokens.take().text)
        found[side] = tuple(letters)
        if side != "output":
            tokens.take("x" if side == "input" else "->")
    return found


def skipped(tokens: Tokens) -> None:
    """Pass over what stands in the next brackets."""
    pairs = {"<": ">", "{": "}", "[": "]", "(": ")"}
    depth = 0
    while True:
        token = tokens.take()
        if token.kind == "mark":
            depth += (token.text in pairs) - (token.text in pairs.values())
        if depth == 0:
            return


def skip_to_close(tokens: Tokens) -> None:
    """Pass over the rest of a list in parentheses."""
    depth = 1
    while depth:
        text = tokens.take().text
        depth += (text == "(") - (text == ")")
