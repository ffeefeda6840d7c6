"""Attributes of operations: numbers, lists, records, and pieces that are written in a way of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping

from importers.stablehlo.program import Attribute, Dense, Symbol
from importers.stablehlo.tokens import Tokens
from importers.stablehlo.types import tensor_type

MAX_DEPTH = 40
MAX_LENGTH = 100_000
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


def attribute(tokens: Tokens, depth: int = 0, *, typed: bool = True) -> Attribute:
    """One value.

    Args:
        tokens: the text.
        depth: how many values are around this one.
        typed: whether a type may follow, as `1 : i64`.

    Raises:
        ModelError: it is nested too deeply, or none.
    """
    if depth > MAX_DEPTH:
        raise tokens.fault(f"attributes are nested more than {MAX_DEPTH} deep")
    found = _value(tokens, depth)
    if typed and tokens.at(":") and isinstance(found, int | float | Dense):
        tokens.take(":")
        kind = _type(tokens)
        if isinstance(found, Dense) and kind.startswith(("tensor", "vector")):
            return Dense(found.text, tensor_type(kind, tokens.where))
    return found


def _value(tokens: Tokens, depth: int) -> Attribute:
    token = tokens.next
    if token.text in {"[", "("} and token.kind == "mark":
        return sequence(tokens, depth)
    if token.text in {"{", "<"} and token.kind == "mark":
        return record(tokens, depth)
    if token.kind == "number":
        return number(tokens)
    if token.kind == "string":
        return unquoted(tokens.take().text)
    if token.kind == "symbol":
        return _symbol(tokens)
    if token.kind == "dense":
        return Dense(tokens.take().text)
    if token.kind == "type":
        return tensor_type(tokens.take().text, tokens.where)
    if token.kind in {"word", "alias"}:
        return _named(tokens, depth)
    raise tokens.expected("a value")


def _symbol(tokens: Tokens) -> Symbol:
    name = tokens.take().text
    while tokens.maybe("::"):
        name = tokens.take().text
    return Symbol(unquoted(name[1:]))


def number(tokens: Tokens) -> int | float:
    """A number; hexadecimal ones are whole."""
    text = tokens.kind("number", "a number").text
    if len(text) > 400:
        raise tokens.fault("a number has more than 400 digits")
    if "x" in text:
        return int(text, 16)
    return float(text) if set(text) & set(".eE") else int(text)


def unquoted(text: str) -> str:
    """A text without its quotation marks."""
    return text[1:-1].replace('\\"', '"') if text.startswith('"') else text


def sequence(tokens: Tokens, depth: int = 0) -> tuple[Attribute, ...]:
    """Values in brackets."""
    close = _CLOSING[tokens.take().text]
    found: list[Attribute] = []
    while not tokens.maybe(close):
        if found:
            tokens.take(",")
        if len(found) >= MAX_LENGTH:
            raise tokens.fault(f"a list has more than {MAX_LENGTH} values")
        found.append(attribute(tokens, depth + 1))
    return tuple(found)


def record(tokens: Tokens, depth: int = 0) -> dict[str, Attribute]:
    """Values by name; a name alone is true."""
    close = _CLOSING[tokens.take().text]
    found: dict[str, Attribute] = {}
    while not tokens.maybe(close):
        if found:
            tokens.take(",")
        if tokens.next.kind not in {"word", "string"}:
            found[f"#{len(found)}"] = attribute(tokens, depth + 1)
            continue
        name = unquoted(tokens.take().text)
        found[name] = attribute(tokens, depth + 1) if tokens.maybe("=") else True
    return found


def _named(tokens: Tokens, depth: int) -> Attribute:
    """A word: true, false, a list of numbers, or a record of a dialect."""
    name = tokens.take().text
    if name in {"true", "false"}:
        return name == "true"
    if name == "array" and tokens.at("<"):
        tokens.take("<")
        tokens.take()
        values: list[Attribute] = []
        while not tokens.maybe(">"):
            tokens.take("," if values else ":")
            values.append(attribute(tokens, depth + 1))
        return tuple(values)
    if name == "#stablehlo.conv":
        return {"raw": raw(tokens)}
    if tokens.at("<"):
        dotted = name.rpartition(".")[2]
        return _dialect(tokens, dotted, depth)
    return name


def _dialect(tokens: Tokens, name: str, depth: int) -> Attribute:
    """What stands in angle brackets behind a name: `#stablehlo<precision DEFAULT>`, or a record."""
    if name in {"gather", "scatter", "dot", "channel_handle", "output_operand_alias"}:
        return record(tokens, depth + 1)
    return raw(tokens)


def raw(tokens: Tokens) -> str:
    """Everything up to the bracket that closes the next one, word by word."""
    words: list[str] = []
    depth = 0
    while True:
        token = tokens.take()
        words.append(token.text)
        if token.kind == "mark" and token.text in _CLOSING:
            depth += 1
        elif token.kind == "mark" and token.text in _CLOSING.values():
            depth -= 1
        if depth == 0:
            return " ".join(words[1:-1])


def _type(tokens: Tokens) -> str:
    """A type behind a value, as text."""
    token = tokens.take()
    if token.text in {"complex", "tuple"} and tokens.at("<"):
        return f"{token.text}<{raw(tokens)}>"
    return token.text


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


def skip_to_close(tokens: Tokens) -> None:
    """Pass over the rest of a list in parentheses."""
    depth = 1
    while depth:
        text = tokens.take().text
        depth += (text == "(") - (text == ")")
