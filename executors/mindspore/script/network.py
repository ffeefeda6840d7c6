"""A case as a network: one cell for each operator, so that scopes in dumps tell whose a node is."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from executors.mindspore.script.primitives import step_of
from executors.mindspore.script.step import NotTranslatedError, View, dtype_of

_HEAD = "from mindspore import nn, ops\n\n"
_STEP = """
class Step{number}(nn.Cell):
    def __init__(self, held):
        super().__init__()
        for name, value in held.items():
            setattr(self, name, value)

    def construct(self{names}):
        return {expression}

"""
_NETWORK = """
class Network(nn.Cell):
    def __init__(self, held):
        super().__init__()
        for name, value in held.items():
            setattr(self, name, value)

    def construct(self{inputs}):
{lines}
        return {result}
"""


class Training(nn.Cell):
    """The losses of a network and the gradients of its parameters.

    The loss is scaled by a number that is not known before the step, as where it guards against
    underflow; MindSpore would work out a known one beforehand, and the sums of it.
    """

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.weights = ms.ParameterTuple(network.trainable_params())
        self.gradient = ops.GradOperation(get_by_list=True, sens_param=True)
        scale = ms.Tensor(1.0, ms.float32)
        self.scale = ms.Parameter(scale, name="loss scale", requires_grad=False)

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        return loss, self.gradient(self.network, self.weights)(*inputs, self.scale)


class _Text:
    """Statements of a network under way."""

    def __init__(self, case: Mapping[str, Any], numbers: Mapping[str, Any], folder: Path) -> None:
        self.case, self.numbers, self.folder = case, numbers, folder
        self.names: dict[str, str] = {}
        self.steps: list[str] = []
        self.lines: list[str] = []
        self.held: dict[str, Any] = {}
        self.not_run: dict[str, str] = {}
        self.lost: set[str] = set()
        """Tensors that nothing here makes."""
        self.ends: list[str] = []

    def build(self) -> nn.Cell:
        inputs = [each["name"] for each in self.case["inputs"]]
        self.names.update({name: f"x{i}" for i, name in enumerate(inputs)})
        pending: dict[str, dict[str, Any]] = {}
        for number, op in enumerate(self.case["ops"]):
            self._add(number, op, pending)
        text = self._text(len(inputs))
        path = self.folder / f"{self.case['name']}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(self.case["name"], path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        steps = {name: getattr(module, f"Step{name[1:]}")(held) for name, held in pending.items()}
        network: nn.Cell = module.Network({**self.held, **steps})
        return network

    def _text(self, inputs: int) -> str:
        lines = "\n".join(f"        {line}" for line in self.lines)
        result = " + ".join(self.ends) if self.case["training"] else ", ".join(self.ends)
        names = "".join(f", x{i}" for i in range(inputs))
        network = _NETWORK.format(inputs=names, lines=lines, result=result)
        return _HEAD + "".join(self.steps) + network

    def _add(self, number: int, op: Mapping[str, Any], pending: dict[str, dict[str, Any]]) -> None:
        if any(name in self.lost for name in op["inputs"]):
            self.lost.update(op["outputs"])
            return
        try:
            step = step_of(View(op, self.case["tensors"]))
            operands = [self._operand(name) for name in op["inputs"]]
        except NotTranslatedError as error:
            self.not_run[op["name"]] = str(error)
            self.lost.update(op["outputs"])
            return
        pending[f"s{number}"] = step.held
        names = "".join(f", x{i}" for i in range(len(operands)))
        self.steps.append(_STEP.format(number=number, names=names, expression=step.expression))
        made = op["outputs"] or [f"output {number}"]
        self.names.update({n: f"v{number}_{i}" for i, n in enumerate(made) if n})
        left = ", ".join(self.names[n] for n in made if n)
        value = f"self.s{number}({', '.join(operands)})"
        if op["attributes"].get("stop_gradient"):
            value = f"ops.stop_gradient({value})"
        self.lines.append(f"{left} = {value}")
        if op["kind"] in {"Loss", "Output"}:
            self.ends.append(left)

    def _operand(self, name: str) -> str:
        """The value of a tensor in `construct`; what no operator makes is held by the network."""
        if not name:
            return "None"
        if name not in self.names:
            tensor = self.case["tensors"][name]
            key = f"h{len(self.held)}"
            self.held[key] = self._held(name, tensor)
            self.names[name] = f"self.{key}"
        return self.names[name]

    def _held(self, name: str, tensor: Mapping[str, Any]) -> Any:
        dtype = dtype_of(tensor["dtype"])
        array = self.numbers.get(name)
        if tensor["role"] == "constant":
            return ms.Tensor(np.zeros(tensor["dims"]) if array is None else array, dtype)
        value = ms.Tensor(np.ones(tensor["dims"], np.float32), dtype)
        parameter = ms.Parameter(value, name=name, requires_grad=tensor["role"] == "parameter")
        parameter.parallel_optimizer = name in self.case["shared"]
        return parameter


def network_of(
    case: Mapping[str, Any], numbers: Mapping[str, Any], folder: Path
) -> tuple[nn.Cell, dict[str, str]]:
    """The network of a case, and the operators that have no form here, with the reason."""
    text = _Text(case, numbers, folder)
    network = text.build()
    return network, text.not_run


def arguments(case: Mapping[str, Any]) -> list[Any]:
    """Inputs as one device gets them."""
    out = []
    for each in case["inputs"]:
        tensor = case["tensors"][each["name"]]
        own = [size // cut for size, cut in zip(tensor["dims"], each["cuts"], strict=True)]
        out.append(ms.Tensor(np.ones(own, np.float32), dtype_of(tensor["dtype"])))
    return out
