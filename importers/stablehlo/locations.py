"""Locations, which carry the names of arguments and the paths of scopes."""

from __future__ import annotations

import re

from importers.stablehlo.attributes import unquoted
from importers.stablehlo.tokens import Tokens

MAX_DEPTH = 200
_WRAPPED = re.compile(r"(\w+)\((.*)\)")
_WRAPPERS = frozenset({"jit", "pjit", "xla_call", "core_call", "closed_call", "remat"})
_CONTROL = frozenset(
    {"while", "body", "cond", "closed_call", "checkpoint", "rematted_computation", "core_call"}
)
_NAME = re.compile(r"\w[\w.\-]*")
"""What `jnp.einsum` adds, `ij,jk->ik`, is no scope."""


class Locations:
    """What the locations of a text are called."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.names: dict[str, str] = {}

    def define(self, alias: str) -> None:
        """`#loc1 = loc(…)`, of which `loc(…)` comes next."""
        self.names[alias] = self.here()

    def here(self) -> str:
        """The name in a location, `""` where there is none; an alias is looked up."""
        found = self.reference()
        return self.names.get(found, "") if found.startswith("#") else found

    def reference(self) -> str:
        """As `here`, but an alias stays one: aliases may be defined behind their use."""
        if not self.tokens.at("loc"):
            return ""
        self.tokens.take()
        self.tokens.take("(")
        name = ""
        depth, first = 1, True
        while depth:
            token = self.tokens.take()
            if token.kind == "mark":
                depth += (token.text == "(") - (token.text == ")")
                if depth > MAX_DEPTH:
                    raise self.tokens.fault(f"locations are nested more than {MAX_DEPTH} deep")
            if first and token.kind == "string" and not self.tokens.at(":"):
                name = unquoted(token.text)
            elif first and token.kind == "alias":
                name = token.text
            first = False
        return name


def scope_of(name: str) -> str:
    """The path of scopes in a location's name, without what traced calls add.

    >>> scope_of("jit(step)/layer_0/jit(relu)/max")
    'layer_0'
    >>> scope_of("jit(step)/transpose(jvp(attention))/dot_general")
    'attention'
    """
    parts = [_plain(part) for part in name.split("/")[:-1]]
    return ".".join(part for part in parts if _NAME.fullmatch(part))


def _plain(part: str) -> str:
    for _ in range(8):
        match = _WRAPPED.fullmatch(part)
        if match is None:
            break
        if match[1] in _WRAPPERS:
            return ""
        part = match[2]
    return "" if part in _CONTROL or part.startswith("branch_") else part
