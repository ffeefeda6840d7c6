"""What a MindSpore parameter-strategy checkpoint says, apart from how it is written.

Source: MindSpore 2.10.0, `utils/node_strategy.proto` and `frontend/parallel/strategy_checkpoint`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeGuard

from exporters.errors import StrategyFileError
from ir.violations import Violation

PlainMap = tuple[int, ...]
NestedMap = tuple[tuple[int, ...], ...]

_INT32, _INT64, _UINT32 = (-(2**31), 2**31), (-(2**63), 2**63), (0, 2**32)
_MOST_VIOLATIONS = 1000
_MOST_AXES = 64  # a matrix of 64 axes larger than 1 has more devices than there are


@dataclass(frozen=True, slots=True)
class StrategyItem:
    """How one operator that has a parameter is cut."""

    key: str
    """Name of the primitive, an underscore, name of its first parameter: `MatMul_fc1.weight`."""

    stage: int
    """Pipeline stage, from 0."""

    cuts: tuple[tuple[int, ...], ...]
    """For each input the number of cuts of each dimension: `((2, 1), (1, 4))`."""


@dataclass(frozen=True, slots=True)
class ParameterLayout:
    """How one parameter lies on the devices of its stage."""

    name: str
    """Name of the parameter; a merged file puts the stage and a dash in front: `0-fc1.weight`."""

    device_matrix: tuple[int, ...]
    """Sizes of the axes over the ranks; the last axis varies fastest."""

    tensor_map: PlainMap | NestedMap
    """For each dimension the axis that cuts it, counted from the right, or -1: `(-1, 0)`.

    The nested form lists several axes for a dimension, outermost first, and -1 alone for a whole
    one: `((2,), (1, 0))`. Only the protobuf form can hold it.
    """

    tensor_shape: tuple[int, ...] | None = None
    """Shape of the whole parameter, -1 where it is dynamic; the protobuf form does not carry it."""

    field: int = 0
    """Number of fields of an embedding that is cut by fields; 0 for everything else."""

    opt_weight_shard_step: int = 0
    """Distance between the ranks of an optimizer-sharding group."""

    opt_weight_shard_size: int = 0
    """Size of that group: 0 for none, -1 for all replicas."""

    param_split_shape: tuple[int, ...] = ()
    """Rows of each part of an embedding that is cut by hand."""

    indices_offset: tuple[int, ...] = ()
    """First row of each of these parts; as many as `param_split_shape`."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """Pieces of each dimension of a plain map, without the optimizer's share."""
        places = (place if isinstance(place, int) else -1 for place in self.tensor_map)
        return tuple(1 if place < 0 else self.device_matrix[-1 - place] for place in places)

    @property
    def copies(self) -> int:
        """Devices that hold the same part, if the optimizer shares nothing."""
        split = {axis for axes in axes_by_dimension(self.tensor_map) for axis in axes}
        pieces = math.prod(self.device_matrix[-1 - axis] for axis in split)
        return math.prod(self.device_matrix) // pieces


@dataclass(frozen=True, slots=True)
class StrategyCheckpoint:
    """The content of one parameter-strategy checkpoint."""

    current_stage: int
    """How often the file was saved by its process; not the pipeline stage."""

    strategies: tuple[StrategyItem, ...]
    layouts: tuple[ParameterLayout, ...]


def is_nested(tensor_map: PlainMap | NestedMap) -> TypeGuard[NestedMap]:
    """Whether a tensor map lists the axes of each dimension; an empty one is plain."""
    return bool(tensor_map) and isinstance(tensor_map[0], tuple)


def axes_by_dimension(tensor_map: PlainMap | NestedMap) -> NestedMap:
    """Either form of tensor map as the axes that cut each dimension; `()` is a whole one.

    >>> axes_by_dimension((-1, 0)), axes_by_dimension(((2,), (1, 0)))
    (((), (0,)), ((2,), (1, 0)))
    """
    listed = (axes if isinstance(axes, tuple) else (axes,) for axes in tensor_map)
    return tuple(() if axes == (-1,) else axes for axes in listed)


def standardise(
    device_matrix: tuple[int, ...], tensor_map: PlainMap
) -> tuple[tuple[int, ...], PlainMap]:
    """A layout without axes of size 1, as MindSpore stores it.

    >>> standardise((16, 1, 1), (2, 0))
    ((16,), (0, -1))

    Source: MindSpore `frontend/parallel/tensor_layout/tensor_layout.cc`, StandardizeLayout.
    """
    new_axis, kept = {-1: -1}, 0
    for axis, size in enumerate(reversed(device_matrix)):
        new_axis[axis] = -1 if size == 1 else kept
        kept += size != 1
    sizes = tuple(size for size in device_matrix if size != 1)
    return sizes or (1,), tuple(new_axis[axis] for axis in tensor_map)


def expanded(layout: ParameterLayout) -> ParameterLayout:
    """A nested layout in plain form, where every axis has a dimension of its own, as in MindSpore.

    The matrix `(8, 2, 4)`, map `((2,), (1, 0))` and shape `(512, 1024)` become the map `(2, 1, 0)`
    and the shape `(512, 2, 512)`. A plain layout is returned as it is.
    """
    if not is_nested(layout.tensor_map) or layout.tensor_shape is None:
        return layout
    tensor_map: list[int] = []
    shape: list[int] = []
    for axes, size in zip(axes_by_dimension(layout.tensor_map), layout.tensor_shape, strict=True):
        outer = [layout.device_matrix[-1 - axis] for axis in axes[:-1]]
        tensor_map += axes or (-1,)
        shape += [*outer, size if size == -1 else size // math.prod(outer)]
    sizes, plain = standardise(layout.device_matrix, tuple(tensor_map))
    return replace(layout, device_matrix=sizes, tensor_map=plain, tensor_shape=tuple(shape))


def with_shapes(
    checkpoint: StrategyCheckpoint, shapes: Mapping[str, tuple[int, ...]]
) -> StrategyCheckpoint:
    """The checkpoint with tensor shapes by parameter name, which the protobuf form lacks."""
    layouts = (
        replace(layout, tensor_shape=shapes.get(layout.name, layout.tensor_shape))
        for layout in checkpoint.layouts
    )
    return replace(checkpoint, layouts=tuple(layouts))


def require_valid(checkpoint: StrategyCheckpoint) -> StrategyCheckpoint:
    """The checkpoint itself, if it can be written and applied.

    Raises:
        StrategyFileError: with everything that is wrong, up to a thousand things.
    """
    found = islice(_violations(checkpoint), _MOST_VIOLATIONS)
    violations = [Violation(*each) for each in found]
    if violations:
        raise StrategyFileError(*violations)
    return checkpoint


_Found = Iterator[tuple[str, str, str]]


def _violations(checkpoint: StrategyCheckpoint) -> _Found:
    yield from _outside("current_stage", (checkpoint.current_stage,), _UINT32, "current_stage")
    for item in checkpoint.strategies:
        place = f"strategy {item.key!r}"
        yield from _unwritable(item.key, place)
        yield from _outside("the stage", (item.stage,), _UINT32, place)
        for index, cuts in enumerate(item.cuts):
            name = f"a number of cuts of input {index}"
            yield from _outside(name, cuts, (1, _UINT32[1]), place)
    for layout in checkpoint.layouts:
        place = f"layout of {layout.name!r}"
        yield from _unwritable(layout.name, place)
        yield from _outside("a size in dev_matrix", layout.device_matrix, (1, _UINT32[1]), place)
        yield from _scalar_violations(layout, place)
        yield from _map_violations(layout, place)


def _outside(name: str, values: Iterable[int], limits: tuple[int, int], place: str) -> _Found:
    low, end = limits
    for value in values:
        if not low <= value < end:
            yield f"{name} is {value}", place, f"choose a value from {low} to {end - 1}"


def _unwritable(name: str, place: str) -> _Found:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        yield "a name holds half a surrogate pair", place, "use a name that UTF-8 can write"


def _scalar_violations(layout: ParameterLayout, place: str) -> _Found:
    shard = (layout.opt_weight_shard_step, layout.opt_weight_shard_size)
    yield from _outside("field", (layout.field,), _INT32, place)
    yield from _outside("an optimizer-shard value", shard, (-1, _INT32[1]), place)
    yield from _outside("a part in param_split_shape", layout.param_split_shape, _INT64, place)
    yield from _outside("an offset in indices_offset", layout.indices_offset, _INT64, place)
    if len(layout.param_split_shape) != len(layout.indices_offset):
        parts, offsets = len(layout.param_split_shape), len(layout.indices_offset)
        what = f"param_split_shape has {parts} parts, indices_offset has {offsets}"
        yield what, place, "give one offset for each part"


def _map_violations(layout: ParameterLayout, place: str) -> _Found:
    dimensions = axes_by_dimension(layout.tensor_map)
    if is_nested(layout.tensor_map) and () in layout.tensor_map:
        yield (
            "a dimension of the nested tensor map lists nothing",
            place,
            "write (-1,) if it is whole",
        )
    used = [axis for axes in dimensions for axis in axes]
    rank = len(layout.device_matrix)
    if rank > _MOST_AXES:
        yield f"dev_matrix has {rank} axes", place, f"give at most {_MOST_AXES}"
        return
    unknown = [axis for axis in used if not 0 <= axis < rank]
    for axis in unknown:
        yield (
            f"tensor_map names axis {axis} of a dev_matrix of {rank}",
            place,
            f"choose axes from 0 to {rank - 1} counted from the right, or -1 for a whole dimension",
        )
    if len(set(used)) < len(used):
        twice = Counter(used).most_common(1)[0][0]
        yield f"tensor_map uses axis {twice} twice", place, "let an axis cut one dimension once"
    elif not unknown and layout.tensor_shape is not None:
        yield from _shape_violations(layout, dimensions, layout.tensor_shape, place)


def _shape_violations(
    layout: ParameterLayout, dimensions: NestedMap, shape: tuple[int, ...], place: str
) -> _Found:
    if len(shape) != len(dimensions):
        what = f"tensor_shape has {len(shape)} dimensions, tensor_map has {len(dimensions)}"
        yield what, place, "give both the rank of the parameter"
        return
    for index, (size, axes) in enumerate(zip(shape, dimensions, strict=True)):
        ways = math.prod(layout.device_matrix[-1 - axis] for axis in axes)
        if size < -1 or size >= _INT64[1]:
            yield f"dimension {index} has size {size}", place, "give a size, or -1 if it is dynamic"
        elif size != -1 and (ways < 1 or size % ways):
            what = f"dimension {index} of size {size} does not split {ways} ways"
            yield what, place, "choose axes whose sizes multiply to a divisor of it"
