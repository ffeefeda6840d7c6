"""Drawn networks with one or two given strategies, and how we propagate them.

    python -m tests.mindspore_package.write_propagation CASES.json [COUNT [SEED]]

Run by the planner's Python. A case has the network in the form of `mindspore_cases.json`, and
`ours`, the strategies that the operators without a given one take.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.request import SearchRequest
from planner.search import search
from tests.planner.mindspore_nets import Network
from tests.planner.test_mindspore_cases_searches import cuts_in
from topology.catalogue import named_cluster

DEVICES = 8
COUNT, SEED = 30, 3000
SHAPES = ((64, 32), (8, 16, 64), (16, 16, 32, 32))
LONGEST = 7
MOST_GIVEN = 2
Op = dict[str, Any]
Dims = tuple[int, ...]


class Drawing:
    """One network, operator by operator."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.shapes: dict[str, Dims] = {"x": draw.choice(SHAPES)}
        self.made: dict[str, Dims] = dict(self.shapes)
        self.ops: list[Op] = []

    def net(self) -> dict[str, Any]:
        length = self.draw.randint(2, LONGEST)
        while len(self.ops) < length:
            # Mostly what was made last, at times what was made before.
            names = list(self.made)
            self._add(names[-1] if self.draw.random() < 0.8 else self.draw.choice(names))
        for op in self.draw.sample(self.ops, self.draw.randint(1, MOST_GIVEN)):
            self._give(op)
        shapes = {name: list(dims) for name, dims in self.shapes.items()}
        return {"shapes": shapes, "ops": self.ops, "data": ["x"]}

    def _weight(self, *dims: int) -> str:
        name = f"w{len(self.shapes)}"
        self.shapes[name] = dims
        return name

    def _add(self, source: str) -> None:
        dims = self.made[source]
        kinds = (*_ANY, *{2: _ROWS, 4: _IMAGES}.get(len(dims), _MORE))
        kind = self.draw.choice(kinds)
        op, result = _MAKERS[kind](self, source, dims)
        out = f"t{len(self.ops) + 1}"
        self.ops.append({"op": kind, **op, "out": out})
        self.made[out] = result

    def simple(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        return {"inputs": [source]}, dims

    def pair(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        """With a result of as many dims, a whole parameter, or a vector."""
        alike = [name for name, each in self.made.items() if each == dims and name != source]
        how = self.draw.random()
        if alike and how < 0.5:
            other = self.draw.choice(alike)
        else:
            other = self._weight(*(dims if how < 0.75 else dims[-1:]))
        return {"inputs": [source, other]}, dims

    def product(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        size, turned = self.draw.choice((16, 32, 64)), self.draw.random() < 0.3
        weight = self._weight(size, dims[1]) if turned else self._weight(dims[1], size)
        return {"transpose_b": turned, "inputs": [source, weight]}, (dims[0], size)

    def norm(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        return {"inputs": [source, self._weight(dims[-1]), self._weight(dims[-1])]}, dims

    def turn(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        perm = same = list(range(len(dims)))
        while perm == same:  # MindSpore takes one that moves nothing away
            perm = self.draw.sample(same, len(same))
        return {"inputs": [source], "perm": perm}, tuple(dims[axis] for axis in perm)

    def reshape(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        if len(dims) == 2:
            parts = self.draw.choice((2, 4, 8))
            result: Dims = (dims[0] // parts, parts, dims[1])
        else:
            result = (math.prod(dims[:-1]), dims[-1])
        return {"inputs": [source], "shape": list(result)}, result

    def mean(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        axes = [2, 3] if len(dims) == 4 else [1]
        result = tuple(size for axis, size in enumerate(dims) if axis not in axes)
        return {"inputs": [source], "axis": axes}, result

    def convolution(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        channels, size = self.draw.choice((8, 16)), self.draw.choice((1, 3))
        weight = self._weight(channels, dims[1], size, size)
        shape = {"pad_mode": "same", "kernel": size, "stride": 1, "channels": channels}
        return {"inputs": [source, weight], **shape}, (dims[0], channels, *dims[2:])

    def batch_norm(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        return {"inputs": [source], "channels": [dims[1]]}, dims

    def pool(self, source: str, dims: Dims) -> tuple[Op, Dims]:
        result = (*dims[:2], *(size // 2 for size in dims[2:]))
        return {"inputs": [source], "kernel": 2, "stride": 2}, result

    def _give(self, op: Op) -> None:
        """A strategy that MindSpore takes; at times with one of its result."""
        dims = [self.made.get(n, self.shapes.get(n, ())) for n in op["inputs"]]
        if op["op"] in _GIVEN:
            strategy = _GIVEN[op["op"]](self, dims, op)
        elif op["op"] in {"Add", "Mul"}:
            first = self._cuts(dims[0])
            strategy = [first, first[-len(dims[1]) :]]
        elif op["op"] == "Reshape":
            return
        else:
            strategy = [self._cuts(dims[0])]
        op["user_strategy"] = strategy

    def _cuts(self, dims: Sequence[int], whole: Sequence[int] = ()) -> list[int]:
        """Cuts of a tensor on at most all devices; some dimensions stay whole."""
        out, left = [1] * len(dims), DEVICES
        for _ in range(3):
            place = self.draw.randrange(len(dims))
            free = place not in whole and left > 1 and dims[place] // out[place] % 2 == 0
            if free and self.draw.random() < 0.8:
                out[place] *= 2
                left //= 2
        return out

    def given_product(self, dims: Sequence[Dims], op: Op) -> list[list[int]]:
        columns = dims[1][0 if op["transpose_b"] else 1]
        rows, inner, out = self._cuts((*dims[0], columns))
        is_read = any(op["out"] in each["inputs"] for each in self.ops)
        if inner > 1 and is_read and self.draw.random() < 0.5:
            op["user_out_strategy"] = [[rows * inner, out]]
        return [[rows, inner], [out, inner] if op["transpose_b"] else [inner, out]]

    def given_convolution(self, dims: Sequence[Dims], _: Op) -> list[list[int]]:
        images, inner, high, wide = self._cuts(dims[0], (2, 3))
        return [[images, inner, high, wide], [1, inner, 1, 1]]

    def given_batch_norm(self, dims: Sequence[Dims], _: Op) -> list[list[int]]:
        cuts = self._cuts(dims[0], (2, 3))
        return [cuts, *([cuts[1]] for _ in range(4))]

    def given_norm(self, dims: Sequence[Dims], _: Op) -> list[list[int]]:
        return [self._cuts(dims[0], (len(dims[0]) - 1,)), [1], [1]]

    def given_softmax(self, dims: Sequence[Dims], _: Op) -> list[list[int]]:
        return [self._cuts(dims[0], (len(dims[0]) - 1,))]

    def given_pool(self, dims: Sequence[Dims], _: Op) -> list[list[int]]:
        return [self._cuts(dims[0], (2, 3))]


_ANY = ("ReLU", "Add", "Mul", "Softmax", "LayerNorm", "Reshape", "Transpose")
_ROWS = ("MatMul", "MatMul", "MatMul")
_MORE = ("ReduceMean",)
_IMAGES = ("Conv2D", "Conv2D", "BatchNorm", "BatchNorm", "MaxPool", "ReduceMean")
_MAKERS: Mapping[str, Callable[[Drawing, str, Dims], tuple[Op, Dims]]] = {
    "Add": Drawing.pair,
    "BatchNorm": Drawing.batch_norm,
    "Conv2D": Drawing.convolution,
    "LayerNorm": Drawing.norm,
    "MatMul": Drawing.product,
    "MaxPool": Drawing.pool,
    "Mul": Drawing.pair,
    "ReduceMean": Drawing.mean,
    "ReLU": Drawing.simple,
    "Reshape": Drawing.reshape,
    "Softmax": Drawing.simple,
    "Transpose": Drawing.turn,
}
_GIVEN: Mapping[str, Callable[[Drawing, Sequence[Dims], Op], list[list[int]]]] = {
    "BatchNorm": Drawing.given_batch_norm,
    "Conv2D": Drawing.given_convolution,
    "LayerNorm": Drawing.given_norm,
    "MatMul": Drawing.given_product,
    "MaxPool": Drawing.given_pool,
    "Softmax": Drawing.given_softmax,
}


def drawn(seed: int) -> dict[str, Any]:
    """A network of which at least one operator has a strategy and one has none; in every third
    network one has a strategy of its result.
    """
    draw = random.Random(seed)
    while True:
        net = Drawing(draw).net()
        given = [op for op in net["ops"] if "user_strategy" in op]
        free = [op for op in net["ops"] if "user_strategy" not in op and op["op"] != "Reshape"]
        if given and free and (seed % 3 or any("user_out_strategy" in op for op in given)):
            return net


def propagated(net: Mapping[str, Any]) -> dict[str, Any]:
    """The strategies of our propagation, by operator."""
    network = Network(net)
    request = SearchRequest(
        pins=tuple(network.pins), solver="mindspore_propagation", cost="mindspore",
        dataset_strategy="full_batch", all_to_all=False,
    )  # fmt: skip
    found = cuts_in(search(network.graph(), named_cluster("atlas-800t-a2", DEVICES), request))
    free = (o for o in net["ops"] if "user_strategy" not in o and o["op"] != "Reshape")
    return {op["out"]: found[op["out"]] for op in free}


def main(path: Path, count: int = COUNT, seed: int = SEED) -> None:
    cases = []
    for number in range(seed, seed + count):
        net = drawn(number)
        cases.append({"seed": number, "net": net, "ours": propagated(net)})
    path.write_text(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
