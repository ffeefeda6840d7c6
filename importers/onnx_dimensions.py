"""Sizes that exporters write as text: names, and arithmetic on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import onnx

from importers.errors import check_bound, unknown_dimension
from importers.onnx_checks import MAX_DIM
from importers.size_texts import FUNCTIONS, number_of

OPEN = -1
"""What some exporters write for a size that is open."""
_UNSAFE = r"[^\w.:/@%+-]"
_INNER = r"\.\d+_*$"
"""How names end that are made from a tensor and an axis; which of them count, the walk tells."""


def evaluate_dimension(text: str, bound: Mapping[str, int]) -> int | None:
    """Value of an exporter's dimension such as `"seq*batch + 1"`; None if a name in it is not
    bound.

    >>> evaluate_dimension("seq*batch + 1", {"seq": 8, "batch": 2})
    17
    """
    if text in bound:
        return bound[text]
    value = number_of(text, bound)
    whole = value is not None and not isinstance(value, bool) and value == int(value)
    return int(value) if value is not None and whole else None


def dimension_names(text: str) -> set[str]:
    """Names that `--bind` may give a value to fix a dimension.

    >>> sorted(dimension_names("seq*batch + 1"))
    ['batch', 'seq']
    """
    return set(re.findall(r"[A-Za-z_]\w*", text)) - FUNCTIONS or {text}


def open_name(tensor: str, axis: int) -> str:
    """What an open dimension without a name of its own is called, without what a shell would read.

    >>> open_name("input ids", 0)
    'input_ids.0'
    """
    return f"{re.sub(_UNSAFE, '_', tensor)}.{axis}"


def name_open_dimensions(graph: onnx.GraphProto) -> None:
    """Name the open dimensions for which the exporter wrote -1, `?` or nothing.

    Each gets a name of its own, made from its tensor and axis: two `?` are two dimensions.
    """
    values = (*graph.input, *graph.value_info, *graph.output)
    taken = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
    made: dict[tuple[str, int], str] = {}
    for value in values:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not _is_anonymous(dim):
                continue
            place = (value.name, axis)
            if place not in made:
                name = open_name(*place)
                while name in taken:
                    name += "_"
                taken.add(name)
                made[place] = name
            dim.dim_param = made[place]


def _is_anonymous(dim: onnx.TensorShapeProto.Dimension) -> bool:
    if dim.HasField("dim_value"):
        return bool(dim.dim_value == OPEN)
    return dim.dim_param == str(OPEN) or not re.search(r"\w", dim.dim_param)


def bindable(text: str) -> set[str]:
    """Names in the text of a dimension that `--bind` takes."""
    return {text} if "." in text else dimension_names(text)


def declared_names(model: onnx.ModelProto) -> set[str]:
    """Names of open dimensions that stand in the file."""
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    texts = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
    return texts.union(*map(bindable, texts))


def check_bindings(
    model: onnx.ModelProto, bound: Mapping[str, int], others: Collection[str] = ()
) -> None:
    """Raise `ModelError` for a binding of a dimension that the model lacks, or to no size.

    Args:
        model: the model, its open dimensions named.
        bound: sizes by name.
        others: names that are no dimensions and may have any value.
    """
    names = declared_names(model)
    for name, size in bound.items():
        if name in others:
            continue
        if name not in names and not re.search(_INNER, name):
            raise unknown_dimension(name, shown_names(names))
        check_bound(name, size, MAX_DIM)


def shown_names(names: Collection[str]) -> list[str]:
    """Names of open dimensions as a message lists them: made ones where there are no others."""
    return sorted(n for n in names if n.isidentifier()) or sorted(names)
