"""Pins on a mesh and in a lowered problem: only candidates that cut as asked are left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ir.dialects import Dialect
from ir.graph import OpGraph, Role
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.rule import FactorMap
from ir.texts import listed
from planner.candidates.layout_tables import tensor_dims
from planner.candidates.offers import Offers
from planner.candidates.operators import OpCandidates
from planner.constraints.pins import Pin, cuts_text
from planner.lowering.lowered import Lowered, Node, narrowed
from planner.request import Cuts, RequestError
from topology.cluster import Cluster
from topology.mesh import Mesh

IndexArray = NDArray[np.intp]


def meshes_for(
    graph: OpGraph, pins: Sequence[Pin], dialect: Dialect, meshes: Sequence[Mesh]
) -> tuple[Mesh, ...]:
    """The meshes on which every pin can be kept, in their order.

    Raises:
        RequestError: there is none; the message has the cuts that exist.
    """
    if not pins:
        return tuple(meshes)
    if dialect.cut_counts:
        _check_shared(graph, pins, dialect)
    known: dict[tuple[object, ...], list[list[Cuts]]] = {}
    fitting = [True] * len(meshes)
    for pin in pins:
        view = OpView(pin.op, graph)
        key = (
            lookup(pin.op.kind).rule(view),
            pin.op.divisors,
            tuple(t and t.dims for t in view.inputs),
        )
        if key not in known:
            known[key] = [_offered(view, dialect, mesh) for mesh in meshes]
        keeps = [any(_agrees(pin, cuts) for cuts in offered) for offered in known[key]]
        if not any(keeps):
            raise _nothing_offered(pin, view, known[key], meshes)
        fitting = [a and b for a, b in zip(fitting, keeps, strict=True)]
    if not any(fitting):
        raise RequestError(
            "no one mesh of this machine has all pinned strategies\n"
            f"  at:  {listed(list(dict.fromkeys(pin.text for pin in pins)), 3)}\n"
            "  fix: pin fewer operators, or cut them over the same groups of devices"
        )
    return tuple(mesh for mesh, fits in zip(meshes, fitting, strict=True) if fits)


def first_meshes(
    keeping: Callable[[Sequence[Mesh]], tuple[Mesh, ...]], dialect: Dialect, cluster: Cluster
) -> tuple[Mesh, ...]:
    """The meshes of a target on which everything pinned can be kept; where none is, another one.

    Args:
        keeping: finds those of some meshes, as `meshes_for` does with its errors.
        dialect: of the target.
        cluster: the machine.

    Raises:
        RequestError: no mesh keeps them; the message has the cuts that exist.
    """

    def keeps(mesh: Mesh) -> bool:
        try:
            return bool(keeping([mesh]))
        except RequestError:
            return False

    try:
        return keeping(dialect.meshes(cluster))
    except RequestError:
        other = dialect.mesh_of_cuts(cluster, keeps)
        if other is None:
            raise
        return (other,)


def pinned(lowered: Lowered, pins: Sequence[Pin]) -> Lowered:
    """The problem in which pinned operators have only the candidates that cut as asked.

    Raises:
        RequestError: a pinned operator has no such candidate.
    """
    if not pins:
        return lowered
    allowed = pinned_candidates(lowered, pins)
    found = narrowed(lowered, allowed)
    return replace(found, problem=replace(found.problem, pinned=tuple(allowed)))


def pinned_candidates(lowered: Lowered, pins: Sequence[Pin]) -> dict[int, IndexArray]:
    """The candidates of pinned operators, by the names that they have in the network.

    Raises:
        RequestError: a pinned operator has no such candidate.
    """
    wanted = {pin.op.name: pin for pin in pins}
    return {
        number: kept_candidates(wanted[node.origin.name], node, lowered.setting.mesh)
        for number, node in enumerate(lowered.nodes)
        if node.candidates is not None and node.origin.name in wanted
    }


def _offered(view: OpView, dialect: Dialect, mesh: Mesh) -> list[Cuts]:
    """Cuts of all operands in every candidate of an operator on a mesh, each once."""
    entry = lookup(view.op.kind)
    rule = replace(entry.rule(view), divisors=view.op.divisors)
    # Whether gradients are wanted adds candidates, but none that cuts otherwise.
    found, _ = Offers(dialect, mesh).assignments(rule, entry, gradient=False)
    ranks = [len(t.dims) if t is not None else 0 for t in view.inputs]

    def shards(
        mapping: FactorMap | None, rank: int, assignment: tuple[int, ...]
    ) -> tuple[int, ...]:
        if mapping is None:
            return (1,) * rank
        return Layout(tensor_dims(mapping, assignment)).shards(mesh.sizes)

    every = (
        tuple(shards(m, rank, a) for m, rank in zip(rule.operands, ranks, strict=True))
        for a in found
    )
    return list(dict.fromkeys(every))


def _agrees(pin: Pin, cuts: Cuts) -> bool:
    pairs = zip(pin.cuts, cuts, strict=True)
    return all(wanted is None or wanted == own for wanted, own in pairs)


def kept_candidates(pin: Pin, node: Node, mesh: Mesh, *, strict: bool = True) -> IndexArray:
    """Candidates of an operator's node that keep a pin, whatever they compute again.

    Raises:
        RequestError: there is none, and `strict` says that there must be.
    """
    if node.candidates is None:
        raise TypeError(f"{node.kind} {node.name} has no candidates")
    keep = node.columns.having(_keeping(pin, node.candidates, mesh))
    if strict and not len(keep):
        raise _nothing_kept(pin)
    return keep


def _keeping(pin: Pin, found: OpCandidates, mesh: Mesh) -> NDArray[np.bool_]:
    """Which assignments keep a pin."""
    keep = np.ones(len(found.assignments), dtype=bool)
    for wanted, port in zip(pin.cuts, found.operands, strict=True):
        if wanted is None:
            continue
        if port is None:
            keep &= all(cut == 1 for cut in wanted)
        else:
            same = np.array([s.forward.shards(mesh.sizes) == wanted for s in port.states])
            keep &= same[port.of]
    return keep


def _nothing_kept(pin: Pin) -> RequestError:
    return RequestError(
        f"operator {pin.op.name} ({pin.op.label}) has no candidate that cuts its inputs so\n"
        f"  at:  {pin.text}\n  fix: pin it otherwise"
    )


def _nothing_offered(
    pin: Pin, view: OpView, offered: Sequence[Sequence[Cuts]], meshes: Sequence[Mesh]
) -> RequestError:
    """The error for cuts that no candidate has, with the ones that exist, the nearest first."""
    places = [i for i, wanted in enumerate(pin.cuts) if wanted is not None]
    shown = dict.fromkeys(tuple(cuts[i] for i in places) for own in offered for cuts in own)
    wanted = tuple(pin.cuts[i] or () for i in places)
    near = sorted(shown, key=lambda cuts: (_distance(cuts, wanted), cuts))
    reason = _reason(pin, view, max(mesh.size for mesh in meshes))
    return RequestError(
        f"operator {pin.op.name} ({pin.op.label}) cannot be cut so: {reason}\n"
        f"  at:  {pin.text}\n"
        f"  fix: use one of the strategies that exist: {listed([cuts_text(c) for c in near])}"
    )


def _distance(cuts: Cuts, wanted: Cuts) -> float:
    return sum(
        abs(math.log2(a / b))
        for own, other in zip(cuts, wanted, strict=True)
        for a, b in zip(own, other, strict=True)
    )


def _reason(pin: Pin, view: OpView, devices: int) -> str:
    for wanted, tensor in zip(pin.cuts, view.inputs, strict=True):
        if wanted is None or tensor is None:
            continue
        pieces = math.prod(wanted)
        if devices % pieces:
            return f"{pieces} pieces of {tensor.name} do not divide the {devices} devices"
        divisors = tensor.divisors or tensor.dims
        for place, (size, cut) in enumerate(zip(divisors, wanted, strict=True)):
            if size % cut:
                return f"dimension {place} of {tensor.name}, {size}, does not split {cut} ways"
    return (
        _disagreement(pin, view, devices)
        or "no candidate has these cuts together, as the operator's rule and the target want them"
    )


def _disagreement(pin: Pin, view: OpView, devices: int) -> str:
    """What the operator's rule has against the cuts: a factor is cut one way in all operands."""
    rule = lookup(view.op.kind).rule(view)
    found: dict[int, tuple[int, str]] = {}
    for wanted, tensor, mapping in zip(pin.cuts, view.inputs, rule.operands, strict=True):
        if wanted is None or tensor is None:
            continue
        factors = mapping if mapping is not None else ((),) * len(wanted)
        for place, (cut, dim) in enumerate(zip(wanted, factors, strict=True)):
            name = f"dimension {place} of {tensor.name}"
            if cut > 1 and (not dim or rule.locked.intersection(dim)):
                return f"{name} must stay whole"
            if len(dim) != 1:
                continue
            before, other = found.setdefault(dim[0], (cut, name))
            if before != cut:
                return f"{other} is cut {before} ways and {name}, which goes with it, {cut} ways"
    together = math.prod(cut for cut, _ in found.values())
    return f"together that takes {together} of {devices} devices" if devices % together else ""


def _check_shared(graph: OpGraph, pins: Sequence[Pin], dialect: Dialect) -> None:
    """Targets of cut counts do not compile a parameter that two operators cut differently.

    Source: MindSpore 2.7.0, `step_parallel.cc`, CheckParameterSplit.
    """
    first: dict[str, tuple[Pin, tuple[int, ...]]] = {}
    for pin in pins:
        for name, cuts in zip(pin.op.inputs, pin.cuts, strict=True):
            if cuts is None or not name or graph.tensors[name].role is not Role.PARAMETER:
                continue
            other, before = first.setdefault(name, (pin, cuts))
            if before != cuts:
                raise RequestError(
                    f"parameter {name} has two strategies: {other.op.name} cuts it "
                    f"{cuts_text((before,))[1:-2]} and {pin.op.name} {cuts_text((cuts,))[1:-2]}\n"
                    f"  at:  {other.text} and {pin.text}\n"
                    f"  fix: cut it alike in both, as {dialect.framework} wants it"
                )
