"""The models that XLA judges, each small enough to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from executors.reference import given_tensors
from executors.rescaling import rescaled
from executors.shrink import shrunk
from executors.shrinking.layers import without_equal_layers
from executors.values import numbers
from importers.onnx import import_onnx
from importers.onnx_constants import constant_values
from ir.graph import OpGraph, Role, Tensor
from ir.plan import Plan
from planner.request import SearchRequest
from tests.builders import attention_block, mlp
from tests.judges.schemes import SCHEMES, plans

FOLDER = Path(__file__).parents[1] / "data" / "models"


@dataclass(frozen=True, slots=True)
class Model:
    """A graph, and the file that has the numbers of its constants."""

    graph: Callable[[], OpGraph]
    file: Path | None = None
    batch: int | None = None
    dtype: str | None = None
    smaller: bool = False
    """Plans are made for the model and judged at their small copies."""
    few_layers: bool = False
    """Of equal layers two are kept, at their full size."""

    def plans(
        self,
        devices: int,
        *,
        training: bool,
        cluster: str = "atlas-800t-a2",
        wanted: Sequence[str] = SCHEMES,
    ) -> dict[str, Plan]:
        """Plans of some schemes, small ones where the model is large."""
        request = SearchRequest(target="jax", training=training, batch=self.batch, dtype=self.dtype)
        found = plans(self.graph(), devices, request, cluster, wanted)
        return {name: self._cut(plan) for name, plan in found.items()}

    def _cut(self, plan: Plan) -> Plan:
        if self.smaller:
            return rescaled(shrunk(plan).plan, plan)
        return without_equal_layers(plan)[0] if self.few_layers else plan

    def values(self, plan: Plan) -> dict[str, Array]:
        """Numbers of everything that no operator of a plan makes."""
        return self._numbers(plan, given_tensors(plan))

    def constants(self, plan: Plan) -> dict[str, Array]:
        """Numbers of what is part of the program, zeros that take no memory for all else."""
        tensors, names = plan.graph.tensors, given_tensors(plan)
        out = self._numbers(plan, [n for n in names if _is_part(tensors[n])])
        zero = np.float32(0)
        rest = {n: np.broadcast_to(zero, tensors[n].dims) for n in names if n not in out}
        return {**rest, **out}

    def _numbers(self, plan: Plan, names: Sequence[str]) -> dict[str, Array]:
        known = {} if self.file is None else constant_values(self.file, names, {})
        return numbers(plan.graph, names, known)


def _is_part(tensor: Tensor) -> bool:
    stored = tensor.role in {Role.PARAMETER, Role.BUFFER} and not tensor.is_float
    return stored or tensor.role in {Role.CONSTANT, Role.ACTIVATION}


@cache
def _from_file(name: str) -> OpGraph:
    return import_onnx(FOLDER / f"{name}.onnx.gz")


def _stored(name: str, batch: int) -> Model:
    file = FOLDER / f"{name}.onnx.gz"
    return Model(partial(_from_file, name), file, batch, dtype="fp32", smaller=True)


SMALL: Mapping[str, Model] = MappingProxyType(
    {
        "mlp": Model(partial(mlp, 4)),
        "attention": Model(partial(attention_block, 16, 32, 8, 8)),
        "gpt2": _stored("gpt2_small", 32),
        "resnet50": _stored("resnet50", 32),
        "mixtral": _stored("mixtral_8x7b", 16),
    }
)
"""As tests run them."""
FULL: Mapping[str, Model] = MappingProxyType(
    {
        **{name: replace(model, smaller=False) for name, model in SMALL.items()},
        "attention": Model(partial(attention_block, 16)),
        "mixtral": replace(SMALL["mixtral"], smaller=False, few_layers=True),
    }
)
"""As the benchmark compiles them: at their full extents, without running them."""
