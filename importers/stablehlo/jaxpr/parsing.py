"""The text of a jaxpr becomes equations."""

from __future__ import annotations

import re

from importers.onnx_checks import check_dims
from importers.stablehlo.jaxpr.text import (
    Atom,
    Equation,
    Jaxpr,
    Literal,
    Record,
    Text,
    Value,
    Variable,
    Word,
)
from importers.stablehlo.program import TensorType
from importers.stablehlo.tokens import JAXPR, Tokens

MAX_EQUATIONS = 400_000
MAX_DEPTH = 60
MAX_RANK = 64
_LITERALS = frozenset({"True", "False", "inf", "nan"})
_TYPE = re.compile(r"(key<\w+>|\w+)\[([\d,\s]*)\]")
_DTYPES = {
    "bool": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128",
    "f8_e4m3fn": "float8e4m3fn", "f8_e5m2": "float8e5m2",
    "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2",
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip
_NAMED = frozenset(_DTYPES.values())
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def parsed(text: str, where: str) -> Text:
    """The jaxpr that a text holds.

    Raises:
        ModelError: it holds none, or one larger than any program.
    """
    return _Parser(Tokens(text, where, JAXPR)).whole()


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.count = 0

    def whole(self) -> Text:
        tokens = self.tokens
        named: dict[str, Jaxpr] = {}
        while tokens.at("let"):
            tokens.take()
            name = tokens.kind("word", "the name of a jaxpr").text
            tokens.take("=")
            if name in named:
                raise tokens.fault(f"two jaxprs are called {name!r}")
            named[name] = self.jaxpr(0)
            tokens.take("in")
        main = self.jaxpr(0)
        if tokens.next.kind != "end":
            raise tokens.expected("the end")
        return Text(named, main)

    def jaxpr(self, depth: int) -> Jaxpr:
        tokens = self.tokens
        if depth > MAX_DEPTH:
            raise tokens.fault(f"jaxprs are nested more than {MAX_DEPTH} deep")
        tokens.take("{")
        tokens.take("lambda")
        constants = self._binders()
        tokens.take(";")
        arguments = self._binders()
        tokens.take(".")
        tokens.take("let")
        equations: list[Equation] = []
        while not (tokens.at("in") and tokens.peek(1).text == "("):
            equations.append(self._equation(depth))
            tokens.maybe(";")
        tokens.take("in")
        tokens.take("(")
        results: list[Atom] = []
        while not tokens.maybe(")"):
            results.append(self._atom())
            tokens.maybe(",")
        tokens.take("}")
        return Jaxpr(constants, arguments, tuple(equations), tuple(results))

    def _binders(self) -> tuple[tuple[str, TensorType], ...]:
        tokens = self.tokens
        found: list[tuple[str, TensorType]] = []
        while tokens.next.kind == "word" and tokens.peek(1).text == ":":
            name = tokens.take().text
            tokens.take(":")
            found.append((name, self._type()))
        return tuple(found)

    def _type(self) -> TensorType:
        tokens = self.tokens
        token = tokens.kind("type", "a type such as f32[8,128]")
        match = _TYPE.match(token.text)
        name, sizes = (match[1], match[2]) if match else (token.text, "")
        dtype = _DTYPES.get(name, name if name in _NAMED else "")
        if name.startswith("key<"):
            dtype = "uint32"
        if not dtype:
            raise tokens.fault(f"unknown element type {name[:40]!r}")
        words = [w for w in sizes.replace(" ", "").split(",") if w]
        if len(words) > MAX_RANK or any(len(w) > 18 for w in words):
            raise tokens.fault(f"{token.text[:80]} is larger than any tensor")
        dims = tuple(int(w) for w in words)
        check_dims(dims, tokens.where)
        return TensorType(dims, dtype)

    def _equation(self, depth: int) -> Equation:
        tokens = self.tokens
        self.count += 1
        if self.count > MAX_EQUATIONS:
            raise tokens.fault(f"the program has more than {MAX_EQUATIONS} equations")
        line = tokens.line()
        results = self._binders()
        if results or tokens.at("="):
            tokens.take("=")
        primitive = tokens.kind("word", "an equation").text
        params = self._params(depth) if tokens.at("[") else {}
        operands: list[Atom] = []
        while self._is_atom():
            operands.append(self._atom())
        return Equation(primitive, results, tuple(operands), params, line)

    def _is_atom(self) -> bool:
        """Whether an operand follows, and not the next equation or the end."""
        token, after = self.tokens.next, self.tokens.peek(1)
        if token.kind == "number":
            return True
        if token.kind != "word" or after.text in {"(", "=", "["}:
            return False
        return after.text != ":" or self._is_literal()

    def _is_literal(self) -> bool:
        """Whether `inf: …` is a number, and not a value that JAX happened to call so."""
        token = self.tokens.next
        return token.text in _LITERALS and self.tokens.peek(3).text != "="

    def _atom(self) -> Atom:
        tokens = self.tokens
        token = tokens.take()
        is_number = token.kind == "number" or token.text in _LITERALS
        if is_number and tokens.maybe(":"):
            return Literal(token.text.lower(), self._type())
        if token.kind != "word":
            raise tokens.fault(f"{token.text[:40]!r} is no value", token.start)
        return Variable(token.text)

    def _params(self, depth: int) -> dict[str, Value]:
        """`[name=value name=value …]`."""
        tokens = self.tokens
        tokens.take("[")
        found: dict[str, Value] = {}
        while not tokens.maybe("]"):
            name = tokens.kind("word", "the name of a parameter").text
            tokens.take("=")
            found[name] = self._value(depth + 1)
            while not (tokens.at("]") or tokens.peek(1).text == "="):
                self._skipped()
        return found

    def _skipped(self) -> None:
        """A word of a value that Python prints in its own way, with what its brackets hold."""
        tokens = self.tokens
        closing: list[str] = []
        while True:
            token = tokens.take()
            if token.kind == "mark" and token.text in _PAIRS:
                closing.append(_PAIRS[token.text])
            elif closing and token.kind == "mark" and token.text == closing[-1]:
                closing.pop()
            if not closing:
                return

    def _value(self, depth: int) -> Value:
        tokens = self.tokens
        token = tokens.next
        if depth > MAX_DEPTH:
            raise tokens.fault(f"values are nested more than {MAX_DEPTH} deep")
        if token.kind == "number":
            return _number(tokens.take().text)
        if token.kind == "string":
            return tokens.take().text[1:-1]
        if tokens.at("{"):
            if tokens.peek(1).text == "lambda":
                return self.jaxpr(depth)
            self._skipped()
            return Word("{}")
        if tokens.at("(", "["):
            return self._sequence(depth)
        if token.kind == "word":
            return self._named(depth)
        return Word(tokens.take().text)

    def _sequence(self, depth: int) -> tuple[Value, ...]:
        tokens = self.tokens
        close = _PAIRS[tokens.take().text]
        found: list[Value] = []
        while not tokens.maybe(close):
            found.append(self._value(depth + 1))
            tokens.maybe(",")
        return tuple(found)

    def _named(self, depth: int) -> Value:
        """True, a word, or a call such as `np.int64(1)` or a named tuple."""
        tokens = self.tokens
        name = tokens.take().text
        if name in {"True", "False"}:
            return name == "True"
        if not tokens.at("("):
            return Word(name)
        tokens.take("(")
        fields: dict[str, Value] = {}
        items: list[Value] = []
        while not tokens.maybe(")"):
            if tokens.next.kind == "word" and tokens.peek(1).text == "=":
                key = tokens.take().text
                tokens.take("=")
                fields[key] = self._value(depth + 1)
            else:
                items.append(self._value(depth + 1))
            tokens.maybe(",")
        is_number = name.startswith(("np.", "int", "float", "Literal")) and len(items) == 1
        return items[0] if is_number and not fields else Record(name, fields, tuple(items))


def _number(text: str) -> int | float:
    if "x" in text:
        return int(text, 16)
    plain = text.lstrip("+-")
    return int(text) if plain.isdigit() and len(plain) < 400 else float(text)
