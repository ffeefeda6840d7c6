"""Networks of operators side by side, each with a strategy and parameters of its own.

Runs where MindSpore is installed; the source of a network is left in the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from executors.mindspore.script.network import Training
from executors.mindspore.script.own_network import module_at
from tests.mindspore_package.primitives import Case, made

CUT_BEFORE = frozenset({"Cast"})
"""MindSpore takes the cast of a parameter for a part of its reader: another operator is between."""
_CELL = """

class Case{number}(One):
    def construct(self, {names}):
        return self.case{number}({call})
"""
_SEVERAL = """

class Several(nn.Cell):
    def construct(self):
        return (
            {result}
        )
"""


class One(nn.Cell):
    """One operator; how it is called stands in the text of the network."""

    def __init__(self, case: Case, number: int) -> None:
        super().__init__()
        found = made(case)
        cuts = tuple(tuple(c) for c in case["cuts"])
        # MindSpore takes no strategy of the result but that of a whole one or a scattered one.
        result = [(tuple(case["result"]),)] if case.get("result") else []
        # MindSpore prints the name of the attribute as that of the instance.
        setattr(self, f"case{number}", found.primitive.shard(cuts, *result))
        self.constants = found.constants
        if case["primitive"] in CUT_BEFORE:
            self.before = ops.Neg().shard(cuts)


class End(nn.Cell):
    """The weighted sum of a result, of the first where there are several, in the cuts that it has.

    Without weights of their own MindSpore would see that gradients of several operators are equal.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        cuts = tuple(case["end"]["cuts"])
        self.axes = tuple(range(len(cuts)))
        self.weigh = ops.Mul().shard((cuts, cuts))
        self.sum = ops.ReduceSum().shard((cuts,))

    def construct(self, result, weights):  # type: ignore[no-untyped-def]
        if isinstance(result, tuple):
            return self.sum(self.weigh(result[0], weights), self.axes)
        return self.sum(self.weigh(result, weights), self.axes)


def _text(cases: Sequence[Case]) -> str:
    """The network. MindSpore reads the source, and keeps the name of a cell in dumps where the
    source calls it with arguments one by one.
    """
    calls = []
    cells = ["from tests.mindspore_package.operator_networks import One, nn"]
    for number, case in enumerate(cases):
        names = [f"x{i}" for i in range(len(case["inputs"]))]
        arguments = ", ".join(f"self.case{number}_{name}" for name in names)
        calls.append(f"self.case{number}({arguments})")
        cells.append(_CELL.format(number=number, names=", ".join(names), call=_call(case, names)))
    if "trained" in cases[0]:
        calls = [f"self.end{n}({call}, self.end{n}_weights)" for n, call in enumerate(calls)]
        result = "\n            + ".join(calls)
    else:
        result = ",\n            ".join([*calls, ""])
    return "".join([*cells, _SEVERAL.format(result=result)])


def _call(case: Case, names: list[str]) -> str:
    """Arguments of a primitive: tensors, with constants behind some of them."""
    found = made(case)
    constants = [f"self.constants[{i}]" for i in range(len(found.constants))]
    if found.as_tuple:
        names = [f"({', '.join(names)},)"]
    if case["primitive"] in CUT_BEFORE:
        names = [f"self.before({names[0]})"]
    return ", ".join([*names[: found.after], *constants, *names[found.after :]])


def network_of(cases: Sequence[Case]) -> nn.Cell:
    """Operators on parameters side by side; with gradients, the step of their sum."""
    path = Path("several.py")
    path.write_text(_text(cases))
    module = module_at(path)
    network: nn.Cell = module.Several()
    for number, case in enumerate(cases):
        setattr(network, f"case{number}", getattr(module, f"Case{number}")(case, number))
        parameters = {f"case{number}_x{i}": each for i, each in enumerate(case["inputs"])}
        if "trained" in case:
            setattr(network, f"end{number}", End(case))
            parameters[f"end{number}_weights"] = case["end"]
        trained = f"case{number}_x{case.get('trained')}"
        for name, each in parameters.items():
            setattr(network, name, ms.Parameter(_ones(each), name, requires_grad=name == trained))
    return Training(network) if "trained" in cases[0] else network


def _ones(each: Mapping[str, Any]) -> ms.Tensor:
    return ms.Tensor(np.ones(each["dims"], each["dtype"]))
