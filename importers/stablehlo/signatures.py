"""What stands between the names in StableHLO text: arguments, results, types, and on which line."""

from __future__ import annotations

from importers.stablehlo.attributes import raw, record, skip_to_close
from importers.stablehlo.locations import Locations
from importers.stablehlo.program import Argument, TensorType
from importers.stablehlo.tokens import Tokens
from importers.stablehlo.types import tensor_type


class Signatures:
    """Reads arguments and types from where the tokens stand."""

    def __init__(self, tokens: Tokens, locations: Locations) -> None:
        self.tokens = tokens
        self.locations = locations

    def arguments(self) -> tuple[Argument, ...]:
        """`(%a: t, %b: t {jax.arg_info = …})`."""
        tokens = self.tokens
        tokens.take("(")
        found: list[Argument] = []
        while not tokens.maybe(")"):
            if found:
                tokens.take(",")
            if tokens.next.kind == "type":
                return self._declared_types(found)
            value = tokens.kind("value", "an argument").text
            tokens.take(":")
            kind = self.type()
            given = record(tokens) if tokens.at("{") else {}
            label = self.locations.here()
            known = given.get("jax.arg_info") or given.get("jax.argument")
            found.append(Argument(value, kind, str(known) if known else label))
        return tuple(found)

    def _declared_types(self, found: list[Argument]) -> tuple[Argument, ...]:
        """A declaration without a body has types alone."""
        skip_to_close(self.tokens)
        return tuple(found)

    def results(self) -> tuple[str, ...]:
        """What JAX says of each result behind the arrow; empty where it says nothing."""
        tokens = self.tokens
        if not tokens.maybe("("):
            self.type()
            return ("",)
        found: list[str] = []
        while not tokens.maybe(")"):
            if found:
                tokens.take(",")
            self.type()
            given = record(tokens) if tokens.at("{") else {}
            found.append(str(given.get("jax.result_info", "")))
        return tuple(found)

    def type(self) -> TensorType:
        """A type of a value; what is none that networks compute with has no dims."""
        tokens = self.tokens
        if tokens.next.kind == "type":
            text = tokens.take().text
            return tensor_type(text, f"{tokens.where}, line {tokens.line()}")
        token = tokens.take()
        if tokens.at("<"):
            raw(tokens)
        if token.kind not in {"alias", "word"}:
            raise tokens.expected("a type")
        return TensorType((), token.text)

    def types(self) -> list[TensorType]:
        """`t`, `t, t` or `(t, t)`."""
        tokens = self.tokens
        found: list[TensorType] = []
        if tokens.maybe("("):
            while not tokens.maybe(")"):
                if found:
                    tokens.take(",")
                found.append(self.type())
            return found
        found.append(self.type())
        while tokens.maybe(","):
            found.append(self.type())
        return found
