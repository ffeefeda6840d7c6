"""How cuts pass from one tensor to another, and what they become as those of an operator.

Source: MindSpore 2.7.0, `rec_core/rec_generate_strategy.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ir.mindspore_forms.primitives import PRIMITIVES
from ir.mindspore_forms.strategies import BATCH_ONLY
from ir.ops import BIAS_ADD
from ir.ops.elementwise import ARITHMETIC
from ir.ops.reduction import EXTREMES, SOFTMAXES, SUMS
from planner.mindspore_searches.network import RESHAPE, Dims, Node

Strategy = tuple[Dims, ...]
"""Cuts of every dimension of every input."""
_PAIRS = frozenset(ARITHMETIC)
"""Operators of two inputs of which one may be broadcast."""
_BIAS = PRIMITIVES[BIAS_ADD]
_REDUCTIONS = tuple(PRIMITIVES[kind] for kind in (*SUMS, *EXTREMES))
_ENDING = BATCH_ONLY | {"ArgMaxWithValue", "ArgMinWithValue"}
"""They take no cuts of what reads them."""


def reshaped(source: Dims, target: Dims, cuts: Dims) -> Dims:
    """Cuts of a tensor as cuts of what a reshape makes of it.

    A cut goes whole to the first dimension it fits that lies in the one it was of, else as far as
    it divides.
    """
    out, left = [1] * len(target), list(cuts)
    for is_last in (False, True):
        _share(list(source), list(target), left, out, is_last=is_last)
    return tuple(out)


def _share(
    source: list[int], target: list[int], left: list[int], out: list[int], *, is_last: bool
) -> None:
    here = there = 0
    while here < len(source) and there < len(target):
        outer, inner = source[here], target[there]
        if is_last:
            taken = math.gcd(left[here], inner) if outer > inner else left[here]
        else:
            taken = left[here] if outer >= inner and inner % left[here] == 0 else 1
        out[there] *= taken
        if taken > 1 and not (is_last and outer <= inner):
            left[here] //= taken
        if outer > inner:
            source[here] //= inner
            there += 1
        elif outer < inner:
            target[there] //= outer
            here += 1
        else:
            here, there = here + 1, there + 1


def looked_up(dims: Dims, devices: int) -> Dims:
    """Cuts of the result of a lookup: the first dimension, then the others, the largest first."""
    order = [0, *sorted(range(1, len(dims)), key=lambda axis: -dims[axis])] if dims else []
    out, rest = [1] * len(dims), devices
    for axis in order:
        out[axis] = math.gcd(dims[axis] & -dims[axis], rest)
        rest //= out[axis]
    return tuple(out)


def result_cuts(node: Node, strategy: Strategy, devices: int) -> Dims:
    """Cuts of what an operator makes, as MindSpore reads them off its strategy; empty if not."""
    if node.kind == "Gather":
        return looked_up(node.result, devices)
    if not strategy or node.kind == "StridedSlice":
        return ()
    if node.kind in _PAIRS or node.kind == _BIAS:
        ranks = [len(dims) for dims in node.dims]
        return strategy[ranks.index(max(ranks))]
    first = next((each for dims, each in zip(node.dims, strategy, strict=False) if dims), ())
    passed_on = _permuted if node.permutes else _FORWARD.get(node.kind)
    return passed_on(node, first) if passed_on is not None else first


def operand_cuts(node: Node, reader: Node, at: int, strategy: Strategy, devices: int) -> Dims:
    """Cuts of the operand of an operator from those that a reader has of its result; empty if
    MindSpore does not pass them on.
    """
    read = strategy[at] if at < len(strategy) else ()
    if node.kind == "Gather":
        return looked_up(reader.dims[at], devices)
    if node.kind in _ENDING or (len(read) < len(node.result) and node.kind != RESHAPE):
        return ()
    passed_on = _permuted if node.permutes else _BACKWARD.get(node.kind)
    out = passed_on(node, read) if passed_on is not None else read[: len(node.result)]
    return () if node.kind == "Squeeze" and math.prod(out) != devices else out


def strategy_of(node: Node, cuts: Dims, devices: int) -> Strategy:
    """The strategy of an operator of whose tensors one has these cuts."""
    if not cuts:
        return tuple(() for _ in node.dims)
    maker = _STRATEGIES.get(node.kind)
    if maker is not None:
        return maker(node, cuts, devices)
    return _broadcast(node, cuts) if node.kind in _PAIRS else _divisible(node, cuts)


def repeated(node: Node, devices: int) -> Strategy:
    """The strategy of an operator without a parallel form: by batch, or not at all."""
    first = node.dims[0] if node.dims else ()
    is_split = first and node.result and first[0] % devices == 0 == node.result[0] % devices
    return tuple(
        (devices if is_split and name not in node.parameters else 1, *(1,) * (len(dims) - 1))
        if dims
        else ()
        for name, dims in zip(node.reads, node.dims, strict=True)
    )


def valid(node: Node, strategy: Strategy) -> Strategy:
    """Cuts that do not divide their dimension are left out."""
    return tuple(
        tuple(cut if size % cut == 0 else 1 for size, cut in zip(dims, cuts, strict=False))
        for dims, cuts in zip(node.dims, strategy, strict=False)
    )


def dropped_axes(node: Node) -> frozenset[int]:
    """Dimensions of the operand that the result lacks."""
    view = node.view
    rank = len(node.dims[0])
    if view is None or len(node.result) == rank:
        return frozenset()
    axes = view.ints("axes", tuple(range(rank)))
    return frozenset(axis % rank for axis in axes)


def _permutation(node: Node) -> Dims:
    rank = len(node.dims[0])
    turned = tuple(reversed(range(rank)))
    return node.view.ints("perm", turned) if node.view is not None else turned


def _new_axes(node: Node) -> frozenset[int]:
    rank = len(node.result)
    return frozenset(a % rank for a in node.view.ints("axes")) if node.view else frozenset()


def _permuted(node: Node, cuts: Dims) -> Dims:
    """MindSpore permutes the same way in both directions."""
    return tuple(cuts[axis] for axis in _permutation(node))


def _without(axes: frozenset[int], cuts: Dims) -> Dims:
    return tuple(cut for axis, cut in enumerate(cuts) if axis not in axes)


def _with_whole(axes: frozenset[int], cuts: Dims, rank: int) -> Dims:
    """Some axes whole, the others cut in their order."""
    rest = iter(cuts)
    return tuple(1 if axis in axes else next(rest, 1) for axis in range(rank))


_FORWARD: Mapping[str, Callable[[Node, Dims], Dims]] = MappingProxyType(
    {
        "ExpandDims": lambda node, cuts: _with_whole(_new_axes(node), cuts, len(node.result)),
        **dict.fromkeys(BATCH_ONLY, lambda _, cuts: (cuts[0], math.prod(cuts[1:])) if cuts else ()),
        RESHAPE: lambda node, cuts: reshaped(node.dims[0], node.result, cuts),
        **dict.fromkeys(
            (*_REDUCTIONS, "Squeeze"), lambda node, cuts: _without(dropped_axes(node), cuts)
        ),
    }
)
"""Cuts of a result from those of the operand, where they are not the same."""
_BACKWARD: Mapping[str, Callable[[Node, Dims], Dims]] = MappingProxyType(
    {
        "ExpandDims": lambda node, cuts: _without(_new_axes(node), cuts),
        RESHAPE: lambda node, cuts: reshaped(node.result, node.dims[0], cuts),
        **dict.fromkeys(
            (*_REDUCTIONS, "Squeeze"),
            lambda node, cuts: _with_whole(dropped_axes(node), cuts, len(node.dims[0])),
        ),
    }
)
"""The other way round."""


def _divisible(node: Node, cuts: Dims) -> Strategy:
    """All inputs alike, from the first dimension on."""
    return tuple(
        tuple(1 if size == 1 or a >= len(cuts) else cuts[a] for a, size in enumerate(dims))
        for dims in node.dims
    )


def _broadcast(node: Node, cuts: Dims) -> Strategy:
    ranks = [len(dims) for dims in node.dims]
    if len(set(ranks)) == 1:
        return valid(node, _divisible(node, cuts))
    if len(cuts) != max(ranks):
        return tuple((1,) * rank for rank in ranks)
    found = tuple(
        tuple(1 if size == 1 else cut for size, cut in zip(dims, cuts[-rank:], strict=True))
        if 0 < rank < max(ranks)
        else cuts[:rank]
        for dims, rank in zip(node.dims, ranks, strict=True)
    )
    return valid(node, found)


def _softmax(node: Node, cuts: Dims, devices: int) -> Strategy:
    del devices
    axis = node.view.int("axis", -1) if node.view else -1
    whole = list(cuts)
    whole[axis % len(whole)] = 1
    return valid(node, (tuple(whole),))


def _rms_norm(node: Node, cuts: Dims, devices: int) -> Strategy:
    del cuts
    first, *others = node.dims
    own = (min(first[0], devices), *(1,) * (len(first) - 1))
    return (own, *(own[len(own) - len(dims) :] for dims in others))


def _batch_product(node: Node, cuts: Dims, devices: int) -> Strategy:
    """Rows and columns as cut, what is summed whole."""
    del devices
    out = []
    for place, (dims, turned) in enumerate(zip(node.dims, node.turned, strict=True)):
        own = (cuts[-2], 1) if place == 0 else (1, cuts[-1])
        leading = cuts[: len(cuts) - 2][len(cuts) - len(dims) :]
        out.append((*leading, *(reversed(own) if turned else own)))
    return tuple(out)


def _lookup(node: Node, cuts: Dims, devices: int) -> Strategy:
    """Cuts of rows: of the indices as far as it goes, then of the table."""
    del cuts
    table, indices = node.dims[:2]
    axis = node.view.int("axis") if node.view else 0
    if axis:
        found = looked_up(node.result, devices)
        return (found[0], 1), found[len(table) - 1 :]
    own = math.gcd(indices[0] & -indices[0], devices) if indices else 1
    rows = math.gcd(table[0] & -table[0], devices // own)
    together = own * rows == devices and devices not in {own, rows}
    if own > 1 and rows > 1 and not (together and len(table) == len(indices) == 2):
        rows = 1
    return (rows, *(1,) * (len(table) - 1)), (own, *(1,) * (len(indices) - 1))


def _slice(node: Node, cuts: Dims, devices: int) -> Strategy:
    """Dimensions of which a part is taken stay whole."""
    del devices
    steps = node.view.ints("steps") if node.view else ()
    is_plain = all(step == 1 for step in steps)
    whole = zip(cuts, node.dims[0], node.result, strict=False)
    return (tuple(cut if size == kept and is_plain else 1 for cut, size, kept in whole),)


def _one_hot(node: Node, cuts: Dims, devices: int) -> Strategy:
    del devices
    own = (*cuts, *(1,) * len(node.result))[: len(node.result)]
    taken = zip(own, node.result, strict=True)
    return tuple(cut if cut <= size else 1 for cut, size in taken), (), ()


def _data_parallel(node: Node, cuts: Dims, devices: int) -> Strategy:
    del cuts
    return tuple(
        (devices if dims[0] % devices == 0 else 1, *(1,) * (len(dims) - 1)) for dims in node.dims
    )


_STRATEGIES: Mapping[str, Callable[[Node, Dims, int], Strategy]] = MappingProxyType(
    {
        "BatchMatMul": _batch_product,
        _BIAS: lambda _node, cuts, _devices: (cuts, cuts[1:2]),
        "Gather": _lookup,
        **dict.fromkeys((*BATCH_ONLY, "GatherD"), _data_parallel),
        "LayerNorm": lambda node, cuts, _: (
            (*cuts[:-1], 1),
            *((1,) * len(dims) for dims in node.dims[1:]),
        ),
        "OneHot": _one_hot,
        "RmsNorm": _rms_norm,
        **dict.fromkeys((PRIMITIVES[kind] for kind in SOFTMAXES), _softmax),
        "StridedSlice": _slice,
    }
)
"""Operators whose strategy is not the same cuts of all inputs."""


def all_whole(node: Node) -> Dims:
    """One piece of every dimension of the input that has most."""
    return (1,) * max((len(dims) for dims in node.dims), default=0)
