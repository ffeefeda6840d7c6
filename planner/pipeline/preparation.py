"""From what was asked to what is planned: checks, the graph in normal form, input layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ir.batch import find_batch, with_batch
from ir.dialects import TARGETS, Dialect, target_with
from ir.dtypes import SHORT_NAMES
from ir.graph import OpGraph, Tensor
from ir.layout import Layout
from ir.normalise import add_ends, main_dtype, normalise, use_stored_statistics, with_dtype
from ir.ops import is_described
from ir.plan import Plan
from ir.plan_positions import cutting_positions
from ir.symbols import Symbol, with_divisors
from planner.candidates.tensor_layouts import input_layout
from planner.constraints.operator_rules import annotated, check_annotations, given_rules
from planner.constraints.pins import parts_at_odds, scatters
from planner.lowering.pricing import COMMUNICATION, MEMORY, SLICES, TIME
from planner.request import RequestError, SearchRequest
from planner.solvers import ONE_BY_ONE
from topology.cluster import Cluster
from topology.mesh import Mesh

LAYOUT_COSTS = frozenset({SLICES, COMMUNICATION})
"""Costs that layouts follow."""
_CUTS = ("pins", "close_to", "soft_pins")
"""What of a request holds operators to cuts, each behind a name."""


def dialect_for(request: SearchRequest, devices: int) -> Dialect:
    """The dialect that a request asks for.

    Raises:
        RequestError: as `dialect_of`.
    """
    found = dialect_of(request.target, devices, all_to_all=request.all_to_all)
    positions = request.solver == ONE_BY_ONE or asks_for_positions(request.to_dict())
    return replace(found, cut_positions=positions, inherits=scatters(request))


def dialect_of(target: str, devices: int, *, all_to_all: bool = True) -> Dialect:
    """The dialect of a target.

    Raises:
        RequestError: no such target, it does not run on that many devices, or it has no switch for
            all-to-all.
    """
    dialect = _named(target)
    if not dialect.runs_on(devices):
        raise RequestError(
            f"{dialect.framework} does not run on {devices} devices\n"
            f"  at:  --devices {devices}\n"
            "  fix: use 1, 2, 4 or a multiple of 8, or another --target"
        )
    if not all_to_all and not dialect.cut_counts:
        raise RequestError(
            f"target {target} decides for itself when to exchange slices\n"
            "  at:  --no-all-to-all\n"
            f"  fix: leave it out, or use --target {target_with(lambda each: each.cut_counts)}"
        )
    return replace(dialect, all_to_all=all_to_all)


def _named(target: str) -> Dialect:
    if target not in TARGETS:
        raise RequestError(
            f"there is no target {target!r}\n  at:  --target\n"
            f"  fix: use one of {', '.join(TARGETS)}"
        )
    return TARGETS[target]


def dialect_of_plan(plan: Plan) -> Dialect | None:
    """The dialect in which a plan was searched; none where its target is unknown."""
    record = plan.request
    dialect = TARGETS.get(str(record.get("target")))
    if dialect is None:
        return None
    positions = asks_for_positions(record) or any(cutting_positions(plan))
    all_to_all = record.get("all_to_all") is not False
    return replace(dialect, all_to_all=all_to_all, cut_positions=positions)


def asks_for_positions(record: Mapping[str, object]) -> bool:
    """Whether somebody cuts a tensor behind its first two dimensions, as a dataset of strips of
    large images does: then positions may be cut wherever windows read them.

    Args:
        record: of a request, as a plan has it.
    """
    held = [entry[1:2] for key in _CUTS for entry in _lists(record.get(key))]
    every = [own for found in held for cuts in _lists(found) for own in _lists(cuts)]
    every += _lists(record.get("dataset_strategy"))
    behind = (cut for own in every for cut in own[2:])
    return record.get("cut_positions") is True or any(
        isinstance(cut, int) and cut > 1 for cut in behind
    )


def _lists(value: object) -> list[list[object]]:
    """The lists in a list of a record, which may hold anything."""
    return [each for each in value if isinstance(each, list)] if isinstance(value, list) else []


def check_pipeline_request(graph: OpGraph, request: SearchRequest) -> None:
    """Raise `RequestError` if this request cannot have stages and micro-batches."""
    dialect = _named(request.target)
    faults = (
        (request.global_batch is None, "there is no batch to cut", "--pipeline", "add --batch N"),
        (
            request.batch is not None,
            "both are the samples of a step",
            "--batch",
            "leave one of the two out",
        ),
        (
            not request.training,
            "only training has stages and micro-batches",
            "--phase infer",
            "give --batch alone",
        ),
        (
            graph.is_training_step,
            "the model is a traced training step, and stages are cut in a forward model",
            "--pipeline",
            "leave it out, or export the forward model",
        ),
        (
            request.cost not in {TIME, MEMORY}
            and (bool(request.soft_pins) or request.max_changes is not None),
            "soft pins and older plans are weighed in seconds, and the layouts follow another cost",
            f"--cost {request.cost}",
            "leave it out, or leave out the soft pins and the older plan",
        ),
        (
            isinstance(request.dataset_strategy, tuple),
            "cuts of the inputs are of one batch on all devices",
            "--dataset-strategy",
            "use data_parallel or full_batch, or --batch alone",
        ),
        (
            request.rest == "semi-auto",
            "operators are split by batch over all devices, and a stage has a part of them",
            "--rest semi-auto",
            "give --batch alone",
        ),
        (
            request.stage_meshes == "any" and dialect.equal_stages,
            f"{dialect.framework} has as many devices in every stage",
            "--stage-meshes any",
            "leave it out, or name another target: --target generic",
        ),
        (
            request.stage_meshes == "any" and _has_other_aims(request),
            "pins with a price, older plans and costs of layouts want stages of equal devices",
            "--stage-meshes any",
            "leave it out",
        ),
        (
            request.stage_meshes == "any" and request.interleave not in {"auto", "1"},
            "chunks need stages of one size",
            "--stage-meshes any",
            "leave it out, or use --interleave 1",
        ),
    )
    for wrong, what, where, fix in faults:
        if wrong:
            raise RequestError(f"{what}\n  at:  {where}\n  fix: {fix}")


def _has_other_aims(request: SearchRequest) -> bool:
    """Whether layouts follow more than time and memory."""
    is_soft = bool(request.soft_pins or request.close_to) or request.max_changes is not None
    return is_soft or request.cost in LAYOUT_COSTS


def prepare(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> tuple[OpGraph, list[str]]:
    """The graph that is planned, and what was assumed.

    Batch and element type are set, the graph is brought into normal form, its ends are added. What
    divides the sizes at every value of its symbols is read off its variants, prepared alike.

    Raises:
        BatchError: the batch cannot be followed.
        RequestError: the chip lacks the element type, or a given rule does not fit the model.
        SymbolError: the model has other operators at other values of its symbols.
    """
    ready, notes = _prepared(graph, cluster, request)
    variants = tuple(_prepared(each, cluster, request)[0] for each in graph.variants)
    return with_divisors(replace(ready, variants=variants)), notes + _range_notes(request)


def _prepared(
    graph: OpGraph, cluster: Cluster, request: SearchRequest
) -> tuple[OpGraph, list[str]]:
    notes = list(graph.notes)
    # As it is where it may be, so that what is known of it serves every batch.
    graph = annotated(replace(graph, variants=()) if graph.variants else graph, request.rules)
    if request.batch is not None:
        graph = with_batch(graph, request.batch)
    graph = with_dtype(graph, _dtype(graph, cluster, request))
    graph = replace(graph, batch=graph.batch or find_batch(graph))
    if not request.training:
        graph = use_stored_statistics(graph)
    graph = _normal(graph, request)
    check_annotations(graph)
    notes += _rule_notes(graph)
    return add_ends(graph, training=request.training), notes


def _normal(graph: OpGraph, request: SearchRequest) -> OpGraph:
    """The normal form; operators that are pinned otherwise than their neighbours are not fused,
    and none is for a solver that goes from one to the next.
    """
    fused = normalise(graph, fused_attention=request.fused_attention)
    apart = parts_at_odds(fused, request.pins)
    if request.solver == ONE_BY_ONE:
        apart = frozenset(op.name for op in graph.ops)
    if not apart:
        return fused
    return normalise(graph, fused_attention=request.fused_attention, apart=apart)


def _range_notes(request: SearchRequest) -> list[str]:
    """What is promised where dynamic dimensions have ranges of sizes."""
    ranges = {name: size for name, size in request.bind if isinstance(size, Symbol)}
    if not ranges:
        return []
    planned = ", ".join(f"{name}={size.value}" for name, size in ranges.items())
    every = ", ".join(f"{name}={size}" for name, size in ranges.items())
    return [f"the plan fits every size of {every}; times and memory are those of {planned}"]


def _rule_notes(graph: OpGraph) -> list[str]:
    """Kinds that the catalogue lacks, and what is assumed of them."""
    notes: list[str] = []
    unknown = sorted({op.kind for op in graph.ops if not is_described(op)})
    if unknown:
        notes.append(
            "operators without a sharding rule are replicated on every device, priced by the bytes "
            f"that they move: {', '.join(unknown)}"
        )
    given = given_rules(graph)
    if given:
        rules = ", ".join(f"{kind} ({text})" for kind, text in given.items())
        notes.append(f"operators with a given rule, priced by the bytes that they move: {rules}")
    return notes


def _dtype(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> str:
    wanted = request.dtype or main_dtype(graph)
    dtype = SHORT_NAMES.get(wanted, wanted)
    if cluster.chip.supports(dtype):
        return dtype
    usable = [short for short, name in SHORT_NAMES.items() if cluster.chip.supports(name)]
    raise RequestError(
        f"{cluster.chip.name} has no {dtype}\n"
        f"  at:  {'--dtype' if request.dtype else 'the element type of the model'}\n"
        f"  fix: --dtype {'fp16' if 'fp16' in usable else ' or '.join(usable)}"
    )


def input_layouts(
    graph: OpGraph, mesh: Mesh, dialect: Dialect, request: SearchRequest
) -> Mapping[str, Layout]:
    """The fixed layouts in which the inputs arrive.

    Raises:
        RequestError: a tuple of the user does not fit the inputs or the mesh.
    """
    strategy = request.dataset_strategy or ("data_parallel" if request.training else "full_batch")
    if isinstance(strategy, tuple) and len(strategy) != len(graph.inputs):
        raise RequestError(
            f"the dataset strategy has {len(strategy)} entries, the model {len(graph.inputs)} "
            f"inputs\n  at:  --dataset-strategy\n"
            f"  fix: give one tuple for each of {', '.join(graph.inputs)}"
        )
    out: dict[str, Layout] = {}
    for index, name in enumerate(graph.inputs):
        cuts = strategy[index] if isinstance(strategy, tuple) else None
        split, tensor = strategy == "data_parallel", graph.tensors[name]
        try:
            out[name] = input_layout(tensor, mesh, cuts, split=split, innermost=dialect.cut_counts)
        except ValueError as error:
            raise RequestError(
                f"{error}\n  at:  --dataset-strategy\n"
                "  fix: choose cuts that divide the dims and the devices"
            ) from error
    return out


def input_notes(graph: OpGraph, mesh: Mesh, layouts: Mapping[str, Layout]) -> list[str]:
    """Inputs whose rows do not divide by all devices, and ranks that are placed in an order."""
    out: list[str] = []
    for name, layout in layouts.items():
        dims = graph.tensors[name].dims
        if not dims or len(layout.dims[0]) == len(mesh.axes) or any(layout.dims[1:]):
            continue
        pieces = layout.shards(mesh.sizes)[0]
        how = f"sharded {pieces} ways, " if pieces > 1 else ""
        out.append(
            f"input {name} of {dims[0]} rows: {how}replicated on {mesh.size // pieces} devices"
        )
    return [*out, *_order_notes(mesh)]


def _order_notes(mesh: Mesh) -> tuple[str, ...]:
    """That ranks are placed otherwise than devices are numbered, if they are."""
    order = mesh.rank_order()
    if order == tuple(range(mesh.size)):
        return ()
    first = ", ".join(map(str, order[:8])) + (", ..." if mesh.size > 8 else "")
    return (f"ranks are placed on devices {first}: the job needs the rank table of this order",)


@dataclass(frozen=True, slots=True)
class Batches:
    """A network at any multiple of a batch."""

    base: OpGraph
    grows: dict[str, tuple[bool, ...]]
    """By tensor, which of its dimensions grow with the batch; tensors that do not are left out."""

    def at(self, batch: int) -> OpGraph:
        """The network at another batch.

        Raises:
            ValueError: a dimension does not divide so.
        """
        tensors = dict(self.base.tensors)
        for name, flags in self.grows.items():
            tensors[name] = _scaled(tensors[name], flags, batch, self.base.batch)
        return replace(self.base, tensors=tensors, batch=batch)


def _scaled(tensor: Tensor, flags: tuple[bool, ...], batch: int, old: int) -> Tensor:
    def sizes(values: tuple[int, ...]) -> tuple[int, ...]:
        pairs = zip(values, flags, strict=True)
        scaled = [v * batch if grows else v * old for v, grows in pairs]
        if any(value % old for value in scaled):
            raise ValueError(f"{tensor.name!r} has no such size at a batch of {batch}")
        return tuple(value // old for value in scaled)

    divisors = sizes(tensor.divisors) if tensor.divisors else ()
    return replace(tensor, dims=sizes(tensor.dims), divisors=divisors)


def batches_of(base: OpGraph, larger: OpGraph, times: int = 2) -> Batches | None:
    """What two preparations show, one of so many times the batch; None if they differ in more than
    sizes that are so many times as large.
    """
    if base.ops != larger.ops or base.tensors.keys() != larger.tensors.keys() or base.batch < 1:
        return None
    if times < 2:
        return None
    grows: dict[str, tuple[bool, ...]] = {}
    for name, own in base.tensors.items():
        other = larger.tensors[name]
        flags = tuple(a != b for a, b in zip(own.dims, other.dims, strict=False))
        grown = tuple(d * (times if f else 1) for d, f in zip(own.dims, flags, strict=False))
        if grown != other.dims or own.role is not other.role or own.dtype != other.dtype:
            return None
        if any(flags):
            grows[name] = flags
    return Batches(base, grows)
