"""Which part of every parameter each rank keeps, as a MindSpore strategy file says it.

A merged file of a pipeline puts the stage and a dash before every name; the ranks of stage s are
the s-th as many as its device matrix has. Source: MindSpore 2.10.0, `parallel/_tensor.py` and
`parallel/_parallel_serialization.py`.
"""

from __future__ import annotations

import math
import re

from exporters.errors import StrategyFileError
from exporters.mindspore.records import (
    ParameterLayout,
    StrategyCheckpoint,
    axes_by_dimension,
    is_nested,
)
from ir.slicing import Grid, Slicing
from ir.violations import Violation

_STAGED = re.compile(r"(\d{1,6})-(.+)", re.DOTALL)
_MOST_RANKS = 2**20
_ORIGIN = "the strategy file"


def strategy_slicing(checkpoint: StrategyCheckpoint, origin: str = _ORIGIN) -> Slicing:
    """The layouts of a strategy file.

    Raises:
        StrategyFileError: it holds no layouts, or one that no files can have.
    """
    if not checkpoint.layouts:
        what = "the strategy file holds no layouts of parameters, only cuts of operators"
        raise _fault(what, origin, "save it with strategy_ckpt_save_file, or export the plan")
    grids: dict[str, list[Grid]] = {}
    dims: dict[str, tuple[int, ...]] = {}
    stage_ranks = _stage_ranks(checkpoint, origin)
    stages: set[int] = set()
    for layout in checkpoint.layouts:
        stage, name = staged_name(layout.name)
        stages.add(stage)
        grids.setdefault(name, []).append(_grid(layout, stage * stage_ranks, origin))
        shape = layout.tensor_shape
        if shape is not None and -1 not in shape and len(shape) == len(grids[name][-1].dims):
            dims[name] = shape
    if stages != set(range(len(stages))):
        what = f"the stages of the strategy file are {', '.join(map(str, sorted(stages)))}"
        raise _fault(what, origin, "merge the files of all stages: merge_pipeline_strategys")
    held = {name: tuple(sorted(g, key=lambda g: g.first_rank)) for name, g in grids.items()}
    return Slicing(origin, stage_ranks * len(stages), held, dims)


def staged_name(name: str) -> tuple[int, str]:
    """Stage and name of a parameter in a merged file; stage 0 where none is named.

    >>> staged_name("1-fc.weight"), staged_name("fc.weight")
    ((1, 'fc.weight'), (0, 'fc.weight'))
    """
    found = _STAGED.fullmatch(name)
    return (int(found[1]), found[2]) if found else (0, name)


def _fault(what: str, at: str, fix: str) -> StrategyFileError:
    return StrategyFileError(Violation(what, at, fix))


def _stage_ranks(checkpoint: StrategyCheckpoint, origin: str) -> int:
    counts = {math.prod(layout.device_matrix): layout.name for layout in checkpoint.layouts}
    if len(counts) > 1:
        (one, first), (other, second), *_ = counts.items()
        what = f"{first!r} lies on {one} ranks, {second!r} on {other}"
        raise _fault(what, origin, "let all layouts have as many ranks")
    (ranks,) = counts
    if ranks > _MOST_RANKS:
        raise _fault(f"layouts over {ranks} ranks", origin, f"at most {_MOST_RANKS} are read")
    return ranks


def _grid(layout: ParameterLayout, first_rank: int, origin: str) -> Grid:
    place = f"{origin}, layout of {layout.name!r}"
    if layout.field or any(layout.param_split_shape):
        fix = "merge such a table with MindSpore's own tools"
        raise _fault("an embedding that is cut by fields or by hand", place, fix)
    matrix, rank = layout.device_matrix, len(layout.device_matrix)
    listed = layout.tensor_map if not is_nested(layout.tensor_map) else None
    by_dim = axes_by_dimension(layout.tensor_map if listed is None else listed)
    dims = tuple(tuple(rank - 1 - axis for axis in axes) for axes in by_dim)
    size = layout.opt_weight_shard_size
    if not size or not layout.opt_weight_shard_step or not dims:
        return Grid(matrix, dims, first_rank)
    matrix, dims = _shared(layout, dims, place)
    return Grid(matrix, dims, first_rank)


def _shared(
    layout: ParameterLayout, dims: tuple[tuple[int, ...], ...], place: str
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Matrix and cuts with the optimizer's share, which cuts the first dimension further.

    The share is made of the innermost axes along which the ranks hold copies; of one that is
    larger than what is left it takes the inner part.
    """
    matrix = list(layout.device_matrix)
    used = {axis for axes in dims for axis in axes}
    repeated = [a for a, size in enumerate(matrix) if a not in used and size > 1]
    left = layout.opt_weight_shard_size
    left = math.prod(matrix[a] for a in repeated) if left == -1 else left
    share: list[int] = []
    while left > 1 and repeated:
        axis = repeated.pop()
        if left % matrix[axis] and matrix[axis] % left:
            break
        if left < matrix[axis]:
            matrix[axis : axis + 1] = [matrix[axis] // left, left]
            dims = tuple(tuple(a + (a > axis) for a in axes) for axes in dims)
            share, axis, left = [a + 1 for a in share], axis + 1, 1
        else:
            left //= matrix[axis]
        share.insert(0, axis)
    if left > 1:
        size = layout.opt_weight_shard_size
        what = f"the optimizer's share of {size} does not fit the axes that hold copies"
        raise _fault(what, place, "save the strategy file again")
    return tuple(matrix), ((*dims[0], *share), *dims[1:])
