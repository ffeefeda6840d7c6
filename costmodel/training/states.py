"""What a device keeps of its parameters and what their update takes, by the one table of bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from costmodel.memory import (
    LARGE,
    NEWTON_SCHULZ_STEPS,
    RULES,
    Master,
    Optimizer,
    Precision,
    moment_elements,
    parameter_bytes,
)
from costmodel.operators import matmul_s
from costmodel.operators.sizes import Sizes
from costmodel.training.attention_core import rate16
from costmodel.training.sizes import (
    dense_matrices,
    expert_matrices,
    expert_replicas,
    sharing_group,
    stage_parameters,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from costmodel.training.constants import StepConstants
    from costmodel.training.sizes import Matrix
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["ADAPTERS", "FULLY_SHARDED", "orthogonalise_s", "state_bytes", "update_bytes"]

DTYPE = "bfloat16"
"""In which parameters are used: published runs compute in 16 bits or fewer."""

FULLY_SHARDED = 3
"""ZeRO stage that shares the parameters too."""

ADAPTERS = 0.01
"""Share of the parameters that adapters train, of frozen weights (assumed)."""

_OPTIMIZERS = tuple(Optimizer)
"""By the code that `RunTable.optimizer` has."""

Of: TypeAlias = Callable[[tuple[Sizes, ...], bool], Sizes]
"""A quantity for each element of a parameter of some dims, inside the network or at an end."""


class PerParameter(NamedTuple):
    """A mean over parameters of a device."""

    dense: FloatArray
    """Over all but routed experts."""
    routed: FloatArray
    """Over routed experts."""


def state_bytes(
    table: RunTable, precision: Precision, layers: FloatArray, tables: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of parameters, gradients and optimizer states of a device with so many layers and
    vocabulary tables, shared as the ZeRO stage says.

    Args:
        table: the runs.
        precision: how their software keeps its numbers, but for where the weight in full precision
            is: that follows from ZeRO's stage and from what the runs state.
        layers: of the device.
        tables: of the device.
    """
    dense, routed = stage_parameters(table, layers, tables)
    group = sharing_group(table)
    # A group may be smaller than what experts are spread over: then none in it has the same.
    expert_group = np.maximum(expert_replicas(table, group), 1.0)

    def shared(stage: int, nbytes: FloatArray, of_routed: FloatArray) -> FloatArray:
        spread = table.zero_stage >= stage
        parts = np.where(spread, group, 1.0)
        expert_parts = np.where(spread, expert_group, 1.0)
        held: FloatArray = nbytes * dense / parts + of_routed * routed / expert_parts
        return held

    width, gradient, master = _kept(table, precision)
    trained = np.where(table.frozen > 0, ADAPTERS, 1.0)
    moments = _mean(table, lambda optimizer: _moments(optimizer, precision), (layers, tables))
    # Gathered once per step, gradients too wait whole for the last micro-batch.
    waiting = gradient * (dense + routed) * table.gather_once
    return (
        shared(FULLY_SHARDED, width, width),
        shared(2, trained * gradient, trained * gradient) + waiting,
        shared(1, *((master + each) * trained for each in moments)),
    )


def _kept(table: RunTable, precision: Precision) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of weight, gradient and master copy of a parameter, each of shape (N,)."""

    def kept(optimizer: Optimizer) -> tuple[FloatArray, FloatArray, FloatArray]:
        apart, at_rest, upper = (
            parameter_bytes(
                DTYPE, optimizer, training=True, precision=replace(precision, master=master)
            )
            for master in (Master.APART, Master.AT_REST, Master.UPPER_HALF)
        )
        # Plans keep a master copy beside the weight at every stage of ZeRO.
        whole = (table.zero_stage >= FULLY_SHARDED) & (table.alone <= 0)
        used = np.where(table.reuse_master > 0, upper.weight, apart.weight)
        return (
            np.where(whole, at_rest.weight, used),
            np.where(table.gradient_bytes > 0, table.gradient_bytes, apart.gradient),
            np.where(whole, at_rest.master, apart.master),
        )

    width, gradient, master = _by_optimizer(table, kept)
    return width, gradient, master


def _moments(optimizer: Optimizer, precision: Precision) -> Of:
    """Bytes of moments."""

    def of(dims: tuple[Sizes, ...], inside: bool) -> Sizes:
        return precision.moment_bytes * moment_elements(optimizer, dims, inside=inside)

    return of


def update_bytes(table: RunTable, precision: Precision) -> tuple[PerParameter, PerParameter]:
    """Bytes that an update moves for each parameter of the fullest device, and those of its states,
    which cross twice to and from the host where they rest there.

    Args:
        table: the runs.
        precision: how the update reads gradients.
    """
    held = np.where(table.pp > 1, table.most_layers, table.layers)
    ends = np.where((table.pp > 1) | (table.tied > 0), 1.0, 2.0)

    def moved(optimizer: Optimizer) -> Of:
        return lambda dims, inside: parameter_bytes(
            DTYPE, optimizer, training=True, dims=LARGE[: len(dims)], inside=inside,
            precision=precision,
        ).moved_by_update  # fmt: skip

    def states(optimizer: Optimizer) -> Of:
        master = parameter_bytes(DTYPE, optimizer, training=True, precision=precision).master
        moments = _moments(optimizer, precision)
        return lambda dims, inside: master + moments(dims, inside)

    return _mean(table, moved, (held, ends)), _mean(table, states, (held, ends))


def orthogonalise_s(
    table: RunTable, c: StepConstants, parts: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Seconds in which the fullest device orthogonalises its matrices, where Muon updates them.

    Whole matrices of a tensor parallel rank are dealt out over the ranks that share states, as by
    Megatron's `LayerWiseDistributedOptimizer`; what it takes to send them is not counted.

    Args:
        table: the runs.
        c: what machine and software reach.
        parts: ranks over which matrices of the dense part, and of experts, are dealt out.
    """

    def seconds(optimizer: Optimizer) -> tuple[FloatArray]:
        if RULES[optimizer].elsewhere is None:
            return (np.zeros_like(table.tp),)
        layers = np.where(table.pp > 1, table.most_layers, table.layers)
        spent = [
            _products_s(table, c, group) / ways
            for group, ways in zip(
                (dense_matrices(table), expert_matrices(table)), parts, strict=True
            )
        ]
        return (layers * (1.0 + table.bidirectional) * sum(spent),)

    (found,) = _by_optimizer(table, seconds)
    return found


def _products_s(table: RunTable, c: StepConstants, group: Iterable[Matrix]) -> FloatArray:
    """Seconds of the products of all matrices of a mean layer."""
    rates, spent = table.machine, np.zeros_like(table.tp)
    for each in group:
        short, long = (np.maximum(size, 1.0) for size in (each.short, each.long))
        for sizes in ((short, short, long), (short, short, short), (short, long, short)):
            one = matmul_s((1.0, *sizes), rate16(table, c), rates.memory_bytes_per_s, rates.shapes)
            spent = spent + NEWTON_SCHULZ_STEPS * each.held * one
    return spent


def _mean(
    table: RunTable, quantity: Callable[[Optimizer], Of], held: tuple[FloatArray, FloatArray]
) -> PerParameter:
    """The mean of a quantity over the parameters of a device.

    Args:
        table: the runs.
        quantity: by optimizer.
        held: layers and vocabulary tables of the device.
    """

    def mean(optimizer: Optimizer) -> tuple[FloatArray, FloatArray]:
        of, rule = quantity(optimizer), RULES[optimizer]
        if not rule.factored and rule.elsewhere is None:
            each = np.asarray(of(LARGE, True))
            return each, each
        return _over_shapes(table, of, held)

    return PerParameter(*_by_optimizer(table, mean))


def _over_shapes(
    table: RunTable, of: Of, held: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The mean where it hangs on shapes: of matrices, vectors and vocabulary tables."""
    layers, tables = held
    none = np.zeros_like(table.tp)

    def of_matrices(group: Iterable[Matrix]) -> tuple[FloatArray, FloatArray]:
        elements, total = none, none
        for each in group:
            dims = np.maximum(each.rows, 1.0), np.maximum(each.columns, 1.0)
            elements = elements + each.elements
            total = total + each.elements * of(dims, True)
        return elements, total

    inside, total = of_matrices(dense_matrices(table))
    layer = stage_parameters(table, np.ones_like(table.tp), none)[0] * table.tp
    total = layers * (total + (layer - inside) * of(LARGE[:1], True))
    total = total + tables * table.vocab * table.hidden * of((table.vocab, table.hidden), False)
    dense = stage_parameters(table, layers, tables)[0] * table.tp
    routed, routed_total = of_matrices(expert_matrices(table))
    return total / np.maximum(dense, 1.0), routed_total / np.maximum(routed, 1.0)


def _by_optimizer(
    table: RunTable, of: Callable[[Optimizer], tuple[FloatArray, ...]]
) -> tuple[FloatArray, ...]:
    """Columns of every run by its optimizer."""
    codes = np.unique(table.optimizer).astype(np.int64)
    found = [of(_OPTIMIZERS[code]) for code in codes]
    if len(found) < 2:  # of no run at all, whatever they would have
        return found[0] if found else of(Optimizer.ADAMW)
    own = np.searchsorted(codes, table.optimizer)
    return tuple(np.choose(own, columns) for columns in zip(*found, strict=True))
