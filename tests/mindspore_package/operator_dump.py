"""What each of several operators sends, in the text of a graph that MindSpore dumped at its end.

A node belongs to the operator whose parameters it depends on: `operator_networks` names them so.
Scopes do not tell it of backward passes: the gradient of a collective has that of the first one of
its group.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from executors.mindspore.script.collectives import NEIGHBOURS, collectives

_NODE = re.compile(r"^ *%(\d+)\(\S*\) = [\w:]+\((.*?)\)(?: \{| primitive_attrs| cnode|$)")
_OPERAND = re.compile(r"%(?:(\d+)|para\d+_(?:case|end)(\d+)_)")
_BACKWARD, _MIRROR = "Gradients/", "/Grad__MirrorOperator/"
_END = re.compile(r"\bend\d+-End/")
_EXCHANGE = re.compile(rf"^ *%(\d+)\(\S*\) = (?:PrimFunc_)?{NEIGHBOURS}(Grad)?\(")
_DIMS = re.compile(r"Tensor\[Float32\]>?, \((\d+), (\d+), (\d+), (\d+)\)")
_BELOW, _RIGHT = (4, 1, 3), (2, 3, 2)
"""Place of a neighbour among eight, of its lengths among four, and the dimension along its edge."""
_FLOAT_BYTES = 4

Sent = dict[str, list[list[Any]]]
"""Kind, ranks and bytes of messages forward, backward, and that sum gradients of parameters, and
edges with the next neighbours.
"""
WAYS = ("forward", "backward", "gradients", "edges", "edges_back")


def sent(text: str, devices: int, count: int) -> list[Sent]:
    """What each of so many operators sends."""
    lines = text.splitlines()
    owner = _owners(lines)
    out: list[Sent] = [{way: [] for way in WAYS} for _ in range(count)]
    for each in collectives(text, devices):
        way = _way(each["scope"])
        if each["node"] in owner and not _is_of_the_end(each, way):
            message = [each["kind"], each["ranks"], each["nbytes"]]
            out[owner[each["node"]]][way].append(message)
    for number, line in enumerate(lines):
        if (found := _EXCHANGE.search(line)) is not None:
            way = "edges_back" if found[2] else "edges"
            out[owner[found[1]]][way] += _edges(line, lines[number + 1])
    return out


def _owners(lines: list[str]) -> Mapping[str, int]:
    """The operator that each node depends on."""
    out: dict[str, int] = {}
    for line in lines:
        if (node := _NODE.match(line)) is not None:
            for operand, parameter in _OPERAND.findall(node[2]):
                if parameter or operand in out:
                    out.setdefault(node[1], int(parameter) if parameter else out[operand])
    return out


def _way(scope: str) -> str:
    if not scope.startswith(_BACKWARD):
        return "forward"
    return "gradients" if _MIRROR in scope else "backward"


def _is_of_the_end(message: Mapping[str, Any], way: str) -> bool:
    """Whether a message is not that of the operator, but of the sum that its result goes into. All-
    reduces of that sum's gradient depend on no operator, and there are no others.
    """
    if way == "backward" and message["kind"] == "all_reduce":
        return False
    return _END.search(message["scope"]) is not None


def _edges(line: str, types: str) -> Iterator[list[int]]:
    """Each next neighbour, and the bytes that both send each other, corners left out."""
    ranks, lengths = (
        [_numbers(line, f"{way}_{what}") for way in ("send", "recv")]
        for what in ("rank_ids", "lens")
    )
    before, after = ([int(n) for n in dims] for dims in _DIMS.findall(types))
    image, channels, *positions = map(min, before, after)
    for neighbour, length, dim in (_BELOW, _RIGHT):
        rank = max(own[neighbour] for own in ranks)
        if rank >= 0:
            rows = sum(own[length] for own in lengths)
            yield [rank, rows * positions[dim - 2] * image * channels * _FLOAT_BYTES]


def _numbers(line: str, key: str) -> list[int]:
    found = re.search(rf"\b{key}: (\[[-\d, ]*\])", line)
    assert found is not None, line
    numbers: list[int] = ast.literal_eval(found[1])
    return numbers
