"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.onnx_form import Form, Writer


def _matmul(form: Form) -> None:
    names = list(form.inputs[:2])
    for index, key in enumerate(("trans_a", "trans_b")):
        rank = len(form.dims(index))
        if form.int(key) and rank > 1:
            perm = (*range(rank - 2), rank - 1, rank - 2)
            names[index] = form.add("Transpose", [names[index]], perm=perm)
    form.add("MatMul", names, form.outputs)


PRODUCTS: Mapping[str, Writer] = MappingProxyType({"MatMul": _matmul})
