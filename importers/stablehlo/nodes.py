"""Operators over the tensors of a draft as they are, whatever views the program has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from importers.onnx_checks import type_code
from importers.operators import Dims, Operators
from importers.stablehlo.draft import Draft
from importers.traced.writer import Attribute


@dataclass(frozen=True, slots=True)
class Nodes(Operators[str]):
    """Steps of a draft in one module; lists of numbers stay attributes until emission."""

    draft: Draft
    scope: str

    def dims(self, value: str) -> Dims:
        return self.draft.tensors[value].dims

    def dtype_of(self, value: str) -> str:
        return self.draft.tensors[value].dtype

    def cast_settings(self, dtype: str) -> Mapping[str, int]:
        return {"to": type_code(dtype)}

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        dims: Sequence[int],
        dtype: str = "",
        **attributes: Attribute,
    ) -> str:
        own = dtype or self.dtype_of(inputs[0])
        return self.draft.step(kind, inputs, tuple(dims), own, self.scope, **attributes)

    def with_numbers(
        self,
        kind: str,
        value: str,
        dims: Sequence[int],
        numbers: Mapping[str, Sequence[int]],
        **told: Attribute,
    ) -> str:
        known = {key: tuple(each) for key, each in numbers.items() if key != "shape"}
        return self.op(kind, [value], dims, "", **known, **told)
