"""The strategy of one operator as cuts of its inputs: what MindSpore makes of it, or why not.

`device_layout` is the device matrix and the tensor maps of a split; `reader_of_cuts` goes the other
way, from the cuts that a user wrote for an operator to the split.
Source: MindSpore 2.7.0, `frontend/parallel/ops_info/operator_info.cc`, CheckStrategyByVector,
InferRepeatedCalcInfo; `make test-mindspore` holds both against MindSpore 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.errors import StrategyFileError, UnknownOperatorError
from exporters.mindspore.checks import reader_violations
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form, whole_product
from ir.mindspore_forms.readers import Reader
from ir.mindspore_forms.strategies import spread
from ir.ops import OpView, lookup
from ir.ops.contraction import matmul_rule
from ir.rule import FactorMap, ShardingRule
from ir.violations import Violation

Cuts = Sequence[Sequence[int]]
"""For each input the number of pieces of every dimension."""

_REPEATED = -1
"""Stands for the devices that repeat the operator, where factors stand otherwise."""


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """How MindSpore lays an operator over the devices of a stage."""

    device_matrix: tuple[int, ...]
    """Sizes of the axes over the ranks, those of size 1 included; the last axis varies fastest."""

    inputs: tuple[tuple[int, ...], ...]
    """For each input and dimension the axis that cuts it, counted from the right, or -1."""

    results: tuple[tuple[int, ...], ...]
    """The same of each result."""


def device_layout(reader: Reader) -> DeviceLayout:
    """Device matrix and tensor maps that MindSpore derives from the cuts of an operator.

    Where several factors are one axis, or a dimension is made of several axes, there is no such
    map: `reader_violations` tells of them.
    """
    form = reader.form
    entries = list(form.device_matrix)
    sizes = [reader.count(factors) for factors in entries]
    repeated = math.prod(reader.sizes) // math.prod(sizes)
    if repeated > 1:
        place = 0 if reader.repeats_first else len(sizes)
        sizes.insert(place, repeated)
        entries.insert(place, (_REPEATED,))

    def tensor_map(mapping: FactorMap) -> tuple[int, ...]:
        return tuple(_axis(reader, dim, entries) for dim in mapping)

    return DeviceLayout(
        tuple(sizes),
        tuple(tensor_map(mapping) for mapping in form.tensors or form.inputs),
        tuple(tensor_map(mapping) for mapping in form.results),
    )


def _axis(reader: Reader, dim: tuple[int, ...], entries: Sequence[tuple[int, ...]]) -> int:
    """Place of the entry that cuts a dimension, counted from the right; -1 if it is whole."""
    if reader.count(dim) == 1:
        return -1
    split = {factor for factor in dim if reader.count((factor,)) > 1}
    places = [i for i, entry in enumerate(entries) if split & set(entry)]
    return len(entries) - 1 - places[0]


def reader_of_cuts(view: OpView, cuts: Cuts, devices: int) -> Reader:
    """The split that a user's strategy means, on so many devices.

    Args:
        view: the operator.
        cuts: for each input of MindSpore's primitive the pieces of every dimension.
        devices: of the stage.

    Raises:
        UnknownOperatorError: whether MindSpore takes the strategy is not known.
        StrategyFileError: MindSpore would refuse the strategy; everything that is wrong is named.
    """
    entry = lookup(view.op.kind)
    rule = entry.rule(view)
    form = _form(view, rule, cuts)
    place = f"operator {view.op.name!r} ({form.name or view.op.kind})"
    if not form.name:
        what, fix = _unknown(view)
        raise UnknownOperatorError(Violation(what, place, fix))
    found = list(_misfits(form, cuts, devices))
    counts: dict[int, int] = {}
    if not found:
        counts = _factor_counts(form, rule, cuts)
        found += _inconsistent(form, rule, cuts, counts)
        found += _kept_whole(form, rule, cuts, counts)
        found += _beyond_neighbours(rule, counts)
        found += _of_any_size(view, form, cuts, counts)
        found += _too_many(form, cuts, counts, devices)
    if found:
        raise StrategyFileError(*(Violation(what, place, fix) for what, fix in found))
    reader = _reader(view, form, counts, devices)
    violations = reader_violations(reader)
    if violations:
        raise StrategyFileError(*violations)
    return reader


def _form(view: OpView, rule: ShardingRule, cuts: Cuts) -> PrimitiveForm:
    """A product may be written with its first operand flattened, as `nn.Dense` does, or whole."""
    form = primitive_form(view, rule)
    is_product = lookup(view.op.kind).rule is matmul_rule
    if is_product and cuts and form.dims and len(cuts[0]) == len(view.dims(0)) > 2:
        return whole_product(view, rule)
    return form


_Found = Iterator[tuple[str, str]]
"""What is wrong, and how to mend it."""


def _unknown(view: OpView) -> tuple[str, str]:
    what = f"no distributed {view.op.kind} of MindSpore's is known here for these operands"
    return what, "whether MindSpore takes the strategy is unknown: try it with `planner mindspore`"


def _misfits(form: PrimitiveForm, cuts: Cuts, devices: int) -> _Found:
    """What is wrong whatever the operator means."""
    if len(cuts) != len(form.dims):
        what = f"the strategy has {len(cuts)} inputs, the operator {len(form.dims)}"
        yield what, "give one tuple for each input"
        return
    for index, (own, dims) in enumerate(zip(cuts, form.dims, strict=True)):
        if len(own) != len(dims):
            what = f"the strategy of input {index} has {len(own)} dimensions, the input {len(dims)}"
            yield what, "give one number for each dimension"
            continue
        for cut, dim in zip(own, dims, strict=True):
            if cut < 1:
                yield f"input {index} is cut {cut} ways", "choose a number from 1"
            elif dim % cut:
                what = f"dimension of size {dim} of input {index} is cut {cut} ways"
                yield what, "choose a divisor of the size"
            elif not devices & (devices - 1) and cut & (cut - 1):
                yield f"input {index} is cut {cut} ways", "choose a power of two"


def _factor_counts(form: PrimitiveForm, rule: ShardingRule, cuts: Cuts) -> dict[int, int]:
    """Pieces of every factor; of a dimension of several the outer ones are cut first."""
    counts: dict[int, int] = {}
    for _, dim, cut in _dimensions(form, cuts):
        spread(counts, dim, cut, rule.sizes)
    return counts


def _inconsistent(
    form: PrimitiveForm, rule: ShardingRule, cuts: Cuts, counts: dict[int, int]
) -> _Found:
    """Dimensions that cannot be cut at all, or that another input cuts otherwise."""
    for what, dim, cut in _dimensions(form, cuts):
        means = math.prod(counts[factor] for factor in dim)
        if cut > 1 and (not dim or any(counts[f] > 1 for f in rule.locked.intersection(dim))):
            yield f"{what}, and the operator needs it whole", "leave it whole"
        elif cut != means:
            yield f"{what}, and {means} ways in another input", "cut both alike"


def _dimensions(form: PrimitiveForm, cuts: Cuts) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Every dimension of the inputs: in words, its factors, its pieces."""
    for index, (mapping, own) in enumerate(zip(form.inputs, cuts, strict=True)):
        for place, (dim, cut) in enumerate(zip(mapping, own, strict=True)):
            yield f"dimension {place} of input {index} is cut {cut} ways", dim, cut


def _kept_whole(
    form: PrimitiveForm, rule: ShardingRule, cuts: Cuts, counts: dict[int, int]
) -> _Found:
    """Factors that MindSpore's operator cannot cut."""
    for what, dim, cut in _dimensions(form, cuts):
        if cut > 1 and any(counts[f] > 1 for f in rule.uncut.intersection(dim)):
            yield f"{what}, which MindSpore's {form.name} keeps whole", "leave it whole"


def _beyond_neighbours(rule: ShardingRule, counts: dict[int, int]) -> _Found:
    """Positions in pieces that are shorter than the edges that windows read of them."""
    for window in rule.windows:
        pieces, size = counts.get(window.factor, 1), rule.sizes[window.factor]
        if size % pieces == 0 and not window.fits(size, pieces):
            own, needed = size // pieces * window.step, max(window.before, window.after)
            what = f"dimension {window.dim} of input {window.operand} is cut {pieces} ways"
            fix = "cut it into fewer pieces"
            yield f"{what}, and windows reach {needed} positions into pieces of {own}", fix


def _of_any_size(view: OpView, form: PrimitiveForm, cuts: Cuts, counts: dict[int, int]) -> _Found:
    """Dynamic dimensions that do not divide at every size."""
    divisors = view.op.divisors
    for what, dim, _ in _dimensions(form, cuts) if divisors else ():
        if any(divisors[f] % counts[f] for f in dim):
            divisor = math.prod(divisors[f] for f in dim)
            fix = "cut it into a divisor of that"
            yield f"dynamic {what}, and its sizes divide by {divisor}", fix


def _too_many(form: PrimitiveForm, cuts: Cuts, counts: dict[int, int], devices: int) -> _Found:
    together = math.prod(counts.get(f, 1) for entry in form.device_matrix for f in entry)
    used = max(together, *(math.prod(own) for own in cuts))
    if used > devices or devices % used:
        yield f"it takes {used} of {devices} devices", "choose cuts whose product divides them"


def _reader(view: OpView, form: PrimitiveForm, counts: dict[int, int], devices: int) -> Reader:
    """A split on a mesh that has one axis for each factor that is cut, in MindSpore's order."""
    order = [f for entry in form.device_matrix for f in entry if counts.get(f, 1) > 1]
    split, sizes = list(order), [counts[f] for f in order]
    repeated = devices // math.prod(sizes)
    trial = Reader(view.op, form, (), (*split, _REPEATED), (*sizes, repeated))
    if repeated > 1:
        place = 0 if trial.repeats_first else len(sizes)
        split.insert(place, _REPEATED)
        sizes.insert(place, repeated)
    return Reader(view.op, form, (), tuple(split) or (_REPEATED,), tuple(sizes) or (1,))
