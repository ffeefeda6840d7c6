"""Strategies in the text of a graph that MindSpore dumped after its parallel passes.

`save_graphs` (`MS_DEV_SAVE_GRAPHS=2` from 2.7 on) leaves `step_parallel_end_*.ir`, where operators
have their strategies and the scopes of their cells. Full names are not in it: MindSpore counts the
operators of a kind in a scope in the order of the graph, and so does this reader.

Source: what MindSpore 2.10.0 writes; `tests/mindspore_package` holds the names against those that
it saves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from exporters.errors import StrategyFileError
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyCheckpoint, StrategyItem, require_valid
from ir.mindspore_forms.strategies import Strategy
from ir.violations import Violation

_NODE = re.compile(r"^ *%\d+\([^)]*\) = (?:PrimFunc_)?([\w:]+)\(")
_STRATEGY = re.compile(r"\bin_strategy: (\((?:[\d, ()]|I64)*\))")
_SCOPE = re.compile(r"^ *# (?:Full\w+ with scope|Scope): \((.*)\)\s*$")
_DIMS = re.compile(r"\(([\d, ]*)\)")
_NUMBER = re.compile(r"I64\((\d+)\)")
_NO_OPERATORS = frozenset({"MakeTuple"})
"""Nodes that carry the strategy of their reader."""
_LINES_TO_SCOPE = 4
_FIX = "pass step_parallel_end_*.ir, as MS_DEV_SAVE_GRAPHS=2 leaves it"


def from_graph(text: str) -> OperatorStrategies:
    """The strategies of a graph, by the full names of its operators.

    Raises:
        StrategyFileError: it has none, or a number is out of range.
    """
    lines = text.splitlines()
    count: Counter[tuple[str, str]] = Counter()
    found: dict[str, StrategyItem] = {}
    for number, line in enumerate(lines):
        node = _NODE.match(line)
        if node is None:
            continue
        name = _name(lines[number + 1 : number + _LINES_TO_SCOPE], node[1], count)
        strategy = _STRATEGY.search(line)
        if strategy is not None and name and node[1] not in _NO_OPERATORS:
            found.setdefault(name, StrategyItem(name, 0, _cuts(strategy[1])))
    if not found:
        what = "no operator of the graph has a strategy"
        raise StrategyFileError(Violation(what, "the graph", _FIX))
    items = tuple(found.values())
    require_valid(StrategyCheckpoint(0, items, ()))
    return OperatorStrategies(items, is_compiled=True)


def _name(behind: Sequence[str], kind: str, count: Counter[tuple[str, str]]) -> str:
    """The full name of a node, which stands behind it or is its place in its scope."""
    scope = next((m for line in behind if (m := _SCOPE.match(line))), None)
    if scope is None:
        return ""
    if "Full" in scope[0]:
        return scope[1]
    place = count[scope[1], kind]
    count[scope[1], kind] += 1
    return f"{scope[1]}/{kind}-op{place}"


def _cuts(text: str) -> Strategy:
    """A strategy such as `((8, 1), (1), ())`: one of one input is `((8, 1))`."""
    found = _DIMS.findall(_NUMBER.sub(r"\1", text))
    return tuple(tuple(int(n) for n in dims.split(",") if n.strip()) for dims in found)
