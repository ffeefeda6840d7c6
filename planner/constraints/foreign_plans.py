"""Plans of other tools as requests: what they hold the search to; the rest is chosen at best."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from importers.foreign_plans import ForeignPlan
from ir.factor_roles import token_dims
from ir.graph import OpGraph, Role, Tensor
from ir.ops import OpView
from ir.plan import NamedLayout
from planner.request import Cuts, RequestError, SearchRequest
from topology.cluster import Cluster

_LAYER = re.compile(r"^(.*?(?:^|[./]))(\d+)(?:[./]|$)")


def held_to(
    request: SearchRequest, found: ForeignPlan, graph: OpGraph, cluster: Cluster
) -> tuple[SearchRequest, tuple[str, ...]]:
    """The request that is held to a foreign plan, and what is not taken over.

    Args:
        request: what else is asked.
        found: the plan.
        graph: as it is planned.
        cluster: the machine.

    Raises:
        RequestError: the plan has other layers or parameters than the model, or other devices than
            the machine.
    """
    degrees = dict(found.degrees)
    stages = degrees.pop("pp", 1)
    found = replace(found, context=degrees.pop("cp", found.context))
    devices = _rest(_rest(cluster.devices, stages, "pp"), found.context * found.heads, "cp")
    if found.form == "Megatron" and "dp" not in degrees and "tp" in degrees:
        degrees["dp"] = _rest(devices, degrees["tp"])
    own = _layers(found, graph, devices)
    if stages > 1 and len({each for _, each in own}) == 1:
        degrees, own = dict(own[0][1]), ()
        found = replace(found, vocabulary=0)
    scoped = (*own, *_vocabulary(found, graph, devices))
    left, samples = list(found.left_out), degrees.pop("mb", 0)
    if samples or _cuts_step(found, stages):
        request = _in_micro_batches(request, found, graph, stages, _replicas(found, devices))
        size = str(samples) if samples else request.micro_batch
        zero = "3" if degrees.pop("zero3", None) else request.zero
        starts = _stage_starts(found, graph)
        request = replace(
            request, micro_batch=size, zero=zero, stage_starts=starts, recompute=found.recompute
        )
    elif found.recompute != "auto":
        left.append("checkpoint (recomputed layers)")
    request = _along_tokens(request, found, graph, left)
    rests = tuple(_at_rest(found, graph, cluster))
    asked = replace(request, degrees=tuple(degrees.items()), scoped_degrees=scoped, rests=rests)
    return asked, tuple(f"{each} of the {found.form} plan is left to the planner" for each in left)


def _cuts_step(found: ForeignPlan, stages: int) -> bool:
    """Whether a plan says something of a step that only one cut into micro-batches has."""
    return stages > 1 or bool(found.micro_batch or found.micro_batches > 1 or found.zero)


def _along_tokens(
    request: SearchRequest, found: ForeignPlan, graph: OpGraph, left: list[str]
) -> SearchRequest:
    """The request for what a plan cuts along tokens.

    Degrees leave over so many devices as cut the tokens. That none of them repeats what others do
    leaves products nothing but the tokens to cut. With Ulysses attention cuts heads in their place.
    """
    by_heads = found.by_heads or found.heads > 1
    if found.context > 1 or by_heads:
        parts = str(found.context) if found.context > 1 else "off"
        request = replace(request, context_parallel=parts, fully_use_devices=True)
    if found.ring and request.global_batch is not None:
        request = replace(request, ring_attention="auto")
    elif found.ring:
        left.append("the ring of keys and values (gathered in a step of one batch)")
    if (found.sequence_parallel or by_heads) and token_dims(graph):
        return replace(request, sequence_parallel="on")
    if found.sequence_parallel:
        left.append("sequence parallelism")
    return request


def _stage_starts(found: ForeignPlan, graph: OpGraph) -> tuple[str, ...]:
    """The layers with which all stages but the first begin."""
    scopes, division = layer_scopes(graph), found.division
    if found.ends:
        division = _with_ends(found.ends, dict(found.degrees).get("pp", 1), len(scopes))
    if division and (sum(division) != len(scopes) or not all(division)):
        raise RequestError(
            f"{'/'.join(map(str, division))} are no stages of {len(scopes)} layers\n"
            "  at:  the plan's stages\n  fix: pass the model that the plan was made for"
        )
    places = itertools.accumulate(division[:-1])
    return tuple(scopes[place] for place in places)


def _with_ends(ends: tuple[int, ...], stages: int, layers: int) -> tuple[int, ...]:
    """Layers of each stage where the first and the last have others than those between."""
    each = max(layers - sum(ends), 0) // max(stages - 2, 1)
    return (ends[0], *[each] * (stages - 2), ends[1])


def _replicas(found: ForeignPlan, devices: int) -> int:
    """Copies of the model in each stage."""
    own = dict(found.degrees)
    return own.get("dp", max(devices // own.get("tp", 1), 1))


def _in_micro_batches(
    request: SearchRequest, found: ForeignPlan, graph: OpGraph, stages: int, replicas: int
) -> SearchRequest:
    """The request for a step that is cut as the plan says.

    Raises:
        RequestError: it is not a whole number of micro-batches, or the model is not trained.
    """
    batch = request.batch or found.global_batch or graph.batch
    size: int | None = None
    if found.micro_batches:
        size = _part(batch, found.micro_batches, "micro-batches")
    elif found.micro_batch:
        size = found.micro_batch * replicas
        _part(batch, size, "samples in a micro-batch of all replicas")
    return replace(
        request,
        batch=None,
        global_batch=batch,
        micro_batch="auto" if size is None else str(size),
        pipeline="off" if stages == 1 else str(stages),
        interleave=str(found.chunks),
        zero=str(found.zero) if found.zero else "auto",
    )


def _part(batch: int, count: int, what: str) -> int:
    if batch % count:
        raise RequestError(
            f"a batch of {batch} is no multiple of {count} {what}\n  at:  the plan's batch\n"
            "  fix: pass --batch with a multiple"
        )
    return batch // count


def _vocabulary(
    found: ForeignPlan, graph: OpGraph, devices: int
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """The degree of the product that makes the model's output."""
    makers = graph.producers()
    scopes = {makers[name].scope for name in graph.outputs if name in makers} - {""}
    if not found.vocabulary or not found.layers or not scopes:
        return ()
    own = (("tp", found.vocabulary), ("dp", _rest(devices, found.vocabulary)))
    return tuple((scope, own) for scope in sorted(scopes))


def _rest(devices: int, degree: int, name: str = "tp") -> int:
    if degree < 1 or devices % degree:
        raise RequestError(
            f"{devices} devices are not groups of {degree}\n  at:  {name}={degree}\n"
            "  fix: use a degree that divides the devices"
        )
    return devices // degree


def _layers(
    found: ForeignPlan, graph: OpGraph, devices: int
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    if not found.layers:
        return ()
    scopes = layer_scopes(graph)
    if len(scopes) != len(found.layers):
        raise RequestError(
            f"the plan is for {len(found.layers)} layers, the model has {len(scopes)}\n"
            "  at:  tp_sizes_enc\n  fix: pass the model that the plan was made for"
        )
    return tuple(
        (scope, _of_layer(own, _rest(devices, dict(own)["tp"]), by_heads=found.by_heads))
        for scope, own in zip(scopes, found.layers, strict=True)
    )


def _of_layer(
    own: tuple[tuple[str, int], ...], replicas: int, *, by_heads: bool
) -> tuple[tuple[str, int], ...]:
    """Degrees of a layer. With Ulysses its degree is that of the heads, and weights are whole."""
    weights = {**dict(own), **({"tp": 1} if by_heads else {})}
    return (*weights.items(), ("dp", replicas))


def layer_scopes(graph: OpGraph) -> tuple[str, ...]:
    """Scopes of the layers of a network: the most numbered ones, such as `model.layers.3`."""
    found: dict[str, set[int]] = {}
    names = [op.scope or op.name for op in graph.ops]
    names += [t.name for t in graph.tensors.values() if t.role is Role.PARAMETER]
    for name in names:
        match = _LAYER.match(name)
        if match:
            found.setdefault(match[1], set()).add(int(match[2]))
    if not found:
        return ()
    prefix = max(sorted(found), key=lambda each: len(found[each]))
    return tuple(f"{prefix}{number}" for number in sorted(found[prefix]))


def _at_rest(
    found: ForeignPlan, graph: OpGraph, cluster: Cluster
) -> list[tuple[str, tuple[int, ...]]]:
    """How often each parameter is cut at rest, by the dims that it has here."""
    if not found.placements:
        return []
    mesh = found.mesh or _machine_mesh(found, cluster)
    if math.prod(mesh) != cluster.devices:
        raise RequestError(
            f"the plan is for a mesh of {' x '.join(map(str, mesh))}, the job has "
            f"{cluster.devices} devices\n  at:  mesh\n  fix: pass --devices {math.prod(mesh)}"
        )
    known = {t.name: t for t in graph.parameters}
    unknown = [name for name, _ in found.placements if name not in known]
    if unknown:
        close = get_close_matches(unknown[0], sorted(known), n=1, cutoff=0.4)
        hint = f"name parameters as the model does, such as {close[0]}" if close else "see inspect"
        raise RequestError(
            f"the model lacks {len(unknown)} of the plan's parameters, such as {unknown[0]}\n"
            f"  at:  placements\n  fix: {hint}"
        )
    return [(name, _cuts(known[name], own, mesh)) for name, own in found.placements]


def _machine_mesh(found: ForeignPlan, cluster: Cluster) -> tuple[int, ...]:
    """The machine's tiers, or all devices in one dimension, as the placements have dimensions."""
    count = len(found.placements[0][1])
    tiers = tuple(tier.size for tier in cluster.tiers if tier.size > 1)
    if count == 1:
        return (cluster.devices,)
    if count == len(tiers):
        return tiers
    raise RequestError(
        f"parameters have {count} placements, and the file does not say the sizes of the mesh\n"
        '  at:  placements\n  fix: write {"mesh": [2, 8], "placements": {...}}'
    )


def _cuts(tensor: Tensor, places: Sequence[int | None], mesh: Sequence[int]) -> tuple[int, ...]:
    """Placements are of the dims in the model's file; here they may stand in another order."""
    filed = [1] * len(tensor.dims)
    for size, dim in zip(mesh, places, strict=True):
        if dim is None:
            continue
        if dim >= len(filed):
            raise RequestError(
                f"Shard({dim}) of {tensor.name}, which has {len(filed)} dimensions\n"
                "  at:  placements\n  fix: count dimensions from 0"
            )
        filed[dim] *= size
    order = tensor.stored_permutation or range(len(filed))
    return tuple(filed[place] for place in order)


def pins_of_layouts(
    graph: OpGraph,
    operands: Mapping[str, Sequence[NamedLayout | None]],
    sizes: Mapping[str, int],
) -> tuple[tuple[str, Cuts], ...]:
    """Pins of all operators of a plan that was written for a framework.

    Args:
        graph: as it is planned.
        operands: by operator, the layouts of what it reads.
        sizes: of the mesh axes.

    Raises:
        RequestError: the model has none of its operators.
    """
    out = []
    for op in graph.ops:
        if op.name not in operands or len(operands[op.name]) != len(op.inputs):
            continue
        own: list[tuple[int, ...]] = []
        for tensor, layout in zip(OpView(op, graph).inputs, operands[op.name], strict=True):
            if tensor is not None and tensor.dims and tensor.role is not Role.CONSTANT:
                own.append(_pieces(layout, len(tensor.dims), sizes))
        if own:
            out.append((op.name, tuple(own)))
    if not out:
        raise RequestError(
            "the model has no operator of the plan\n  at:  operators\n"
            "  fix: pass the model that the plan was made for"
        )
    return tuple(out)


def _pieces(layout: NamedLayout | None, rank: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    if layout is None:
        return (1,) * rank
    return tuple(math.prod(sizes[axis] for axis in dim) for dim in layout.dims)
