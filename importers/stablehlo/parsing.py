"""StableHLO text becomes a module: the subset of MLIR that JAX writes.

Both forms of operations are read, the readable one (`stablehlo.add %0, %1 : tensor<4xf32>`) and the
general one (`"stablehlo.gather"(%0, %1) <{…}> : (…) -> …`). What stands between the name of an
operation and its types is gathered by what it looks like: values, attributes, words, bodies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from importers.stablehlo.attributes import (
    attribute,
    attribute_alone,
    letters,
    ranges,
    raw,
    record,
    sequence,
    unquoted,
)
from importers.stablehlo.locations import Locations
from importers.stablehlo.program import (
    Attribute,
    Function,
    Module,
    Operation,
    Region,
    TensorType,
)
from importers.stablehlo.signatures import Signatures
from importers.stablehlo.tokens import Tokens

MAX_OPERATIONS = 400_000
MAX_DEPTH = 24


def parsed(text: str, where: str) -> Module:
    """The module that a text holds.

    Raises:
        ModelError: it is none, or larger than any program.
    """
    return _Parser(Tokens(text, where)).module()


@dataclass(slots=True)
class _Body:
    """What was gathered of an operation so far."""

    operands: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    """What reductions start with, which stand beside the operands: `(%0 init: %1)`."""
    named: list[str] = field(default_factory=list)
    """Arguments of the bodies of a loop: `%iterArg = %0`."""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    types: list[TensorType] = field(default_factory=list)


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.locations = Locations(tokens)
        self.signatures = Signatures(tokens, self.locations)
        self.count = 0
        self.functions: dict[str, Function] = {}

    def module(self) -> Module:
        tokens = self.tokens
        self._aliases()
        name = "program"
        if tokens.maybe("module"):
            if tokens.next.kind == "symbol":
                name = unquoted(tokens.take().text[1:])
            if tokens.maybe("attributes"):
                record(tokens)
            tokens.take("{")
            while not tokens.maybe("}"):
                self._member()
        else:
            while tokens.at("func.func"):
                self._member()
        self.locations.here()
        self._aliases()
        if tokens.next.kind != "end" or not self.functions:
            raise tokens.expected("a module with functions")
        return Module(name, self.functions, self.locations.names)

    def _aliases(self) -> None:
        """Definitions in front of and behind the module."""
        tokens = self.tokens
        while tokens.next.kind == "alias":
            name = tokens.take().text
            tokens.take("=")
            if tokens.at("loc"):
                self.locations.define(name)
            else:
                attribute(tokens)

    def _member(self) -> None:
        """A function; other members of a module, as meshes, tell nothing of the computation."""
        tokens = self.tokens
        if not tokens.at("func.func"):
            self._skipped_member()
            return
        tokens.take()
        while tokens.at("public", "private", "nested"):
            tokens.take()
        name = unquoted(tokens.kind("symbol", "the name of a function").text[1:])
        arguments = self.signatures.arguments()
        results = self.signatures.results() if tokens.maybe("->") else ()
        if tokens.maybe("attributes"):
            record(tokens)
        operations = self._block(0) if tokens.at("{") else ()
        self.locations.here()
        if name in self.functions:
            raise tokens.fault(f"two functions are called {name!r}")
        self.functions[name] = Function(name, arguments, results, operations)

    def _skipped_member(self) -> None:
        tokens = self.tokens
        if tokens.next.kind != "word" or "." not in tokens.next.text:
            raise tokens.expected("a function")
        tokens.take()
        while not tokens.at("func.func", "}") and tokens.next.kind != "end":
            if tokens.next.text in {"<", "{", "[", "("}:
                raw(tokens)
            else:
                tokens.take()

    def _block(self, depth: int) -> tuple[Operation, ...]:
        tokens = self.tokens
        if depth > MAX_DEPTH:
            raise tokens.fault(f"bodies are nested more than {MAX_DEPTH} deep")
        tokens.take("{")
        found: list[Operation] = []
        while not tokens.maybe("}"):
            found.append(self._operation(depth))
        return tuple(found)

    def _operation(self, depth: int) -> Operation:
        tokens = self.tokens
        self.count += 1
        if self.count > MAX_OPERATIONS:
            raise tokens.fault(f"the program has more than {MAX_OPERATIONS} operations")
        line = tokens.line()
        results = self._left_side()
        if tokens.next.kind not in {"word", "string"}:
            raise tokens.expected("an operation")
        name = unquoted(tokens.take().text)
        body = _Body()
        self._gather(name, body, depth)
        location = self.locations.reference()
        types = body.types
        if len(types) < len(results):
            raise tokens.fault(f"{name} has {len(results)} results and {len(types)} types")
        operands = (*body.operands, *body.starts)
        return Operation(
            name, operands, tuple(results), tuple(types[len(types) - len(results) :]),
            body.attributes, tuple(body.words), tuple(body.regions), location, line,
        )  # fmt: skip

    def _left_side(self) -> list[str]:
        """Names of the results; `%0:2` has two."""
        tokens = self.tokens
        results: list[str] = []
        while tokens.next.kind == "value":
            name = tokens.take().text
            if tokens.maybe(":"):
                text = tokens.kind("number", "a number of results").text
                count = int(text) if len(text) < 5 and text.isdigit() else 0
                if not 0 < count <= 4096:
                    raise tokens.fault(f"an operation has {text[:20]} results")
                results += [f"{name}#{i}" for i in range(count)]
            else:
                results.append(name)
            if not tokens.maybe(","):
                tokens.take("=")
                break
        return results

    def _gather(self, name: str, body: _Body, depth: int) -> None:
        """Everything behind the name of an operation, up to its location."""
        tokens = self.tokens
        while tokens.next.kind != "end" and not tokens.at("}", "loc"):
            if tokens.at(":"):
                tokens.take()
                self._signature(body)
                while self._goes_on(body):
                    self._piece(name, body, depth)
                break
            if not self._piece(name, body, depth):
                break

    def _piece(self, name: str, body: _Body, depth: int) -> bool:
        """One value, attribute, word or body; False where the next operation begins."""
        tokens = self.tokens
        token = tokens.next
        if token.kind == "value":
            return self._operand(body)
        if token.text == "(" and token.kind == "mark":
            self._parenthesis(name, body, depth)
        elif token.text == "{" and token.kind == "mark":
            body.attributes.update(record(tokens))
        elif token.text == "<" and token.kind == "mark":
            self._properties(body)
        elif token.text == "[" and token.kind == "mark":
            key = "ranges" if name.endswith(".slice") else f"#{len(body.attributes)}"
            body.attributes[key] = ranges(tokens) if key == "ranges" else sequence(tokens)
        elif token.kind == "word":
            return self._word(name, body, depth)
        elif token.kind == "symbol":
            body.attributes["callee"] = attribute(tokens)
        elif token.kind in {"dense", "string", "number"}:
            body.attributes["value"] = attribute_alone(tokens)
        elif token.text == ",":
            tokens.take()
        else:
            raise tokens.expected("a part of an operation")
        return True

    def _operand(self, body: _Body) -> bool:
        tokens = self.tokens
        name = tokens.take().text
        if tokens.at("="):
            tokens.take("=")
            body.named.append(name)
            name = tokens.kind("value", "a value").text
        body.operands.append(name)
        return True

    def _parenthesis(self, name: str, body: _Body, depth: int) -> None:
        """Operands, or the bodies of the general form."""
        tokens = self.tokens
        tokens.take("(")
        while not tokens.maybe(")"):
            if tokens.at("{"):
                body.regions.append(self._region(depth + 1))
            elif tokens.at("init"):
                tokens.take()
                tokens.take(":")
                body.starts.append(tokens.kind("value", "a value").text)
            elif not self._piece(name, body, depth):
                raise tokens.expected("an operand")

    def _properties(self, body: _Body) -> None:
        """`<{…}>` of the general form, or what a dialect writes in angle brackets."""
        tokens = self.tokens
        tokens.take("<")
        if tokens.at("{"):
            body.attributes.update(record(tokens))
            tokens.take(">")
            return
        depth = 1
        while depth:
            text = tokens.take().text
            depth += (text == "<") - (text == ">")

    def _word(self, name: str, body: _Body, depth: int) -> bool:
        tokens = self.tokens
        word = tokens.take().text
        if word == "reducer":
            body.regions.append(self._reducer(depth))
        elif word in {"cond", "do"} and tokens.at("{"):
            operations = self._block(depth + 1)
            body.regions.append(Region(tuple(body.named), operations))
        elif word == "applies":
            body.attributes["applies"] = tokens.take().text
        elif tokens.maybe("="):
            body.attributes[word] = self._named_value(name, word)
        elif word not in {"across", "attributes"}:
            body.words.append(word)
        return True

    def _named_value(self, name: str, word: str) -> Attribute:
        """`dims = [1, 0]`; pairs as `[1] x [0]`; the letters of a convolution."""
        tokens = self.tokens
        if word == "dim_numbers" or (name.endswith("convolution") and word == "dimension_numbers"):
            return letters(tokens)
        found = attribute(tokens, typed=False)
        if tokens.at("x"):
            tokens.take("x")
            return {"left": found, "right": attribute(tokens, typed=False)}
        return found

    def _reducer(self, depth: int) -> Region:
        """`reducer(%a: t, %b: t) (%c: t, %d: t) { … }`: both sides in turn."""
        tokens = self.tokens
        groups: list[tuple[str, ...]] = []
        while tokens.at("("):
            groups.append(tuple(a.value for a in self.signatures.arguments()))
        if not groups or any(len(g) != 2 for g in groups):
            raise tokens.expected("two arguments for each operand of a reduction")
        arguments = (*(g[0] for g in groups), *(g[1] for g in groups))
        return Region(arguments, self._block(depth + 1))

    def _region(self, depth: int) -> Region:
        """`{ ^bb0(%a: t): … }` of the general form."""
        tokens = self.tokens
        if depth > MAX_DEPTH:
            raise tokens.fault(f"bodies are nested more than {MAX_DEPTH} deep")
        tokens.take("{")
        arguments: tuple[str, ...] = ()
        if tokens.next.kind == "alias":
            tokens.take()
            if tokens.at("("):
                arguments = tuple(a.value for a in self.signatures.arguments())
            tokens.take(":")
        found: list[Operation] = []
        while not tokens.maybe("}"):
            found.append(self._operation(depth))
        tokens.maybe(",")
        return Region(arguments, tuple(found))

    def _signature(self, body: _Body) -> None:
        """Types: those behind an arrow, or the ones that are named."""
        body.types = self.signatures.types()
        if self.tokens.maybe("->"):
            body.types = self.signatures.types()

    def _goes_on(self, body: _Body) -> bool:
        """Whether bodies or attributes follow the types, as those of loops and reductions do."""
        tokens = self.tokens
        if tokens.at("attributes"):
            tokens.take()
            body.attributes.update(record(tokens))
        return tokens.at("cond", "do", "reducer")
