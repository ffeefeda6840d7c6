"""A plan as MindSpore's parameter-strategy checkpoint.

Both parts are made from what was priced: how each operator is cut that reads a trainable parameter,
and how each parameter lies on the devices. See docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from exporters.errors import ExportError
from exporters.mindspore import custom
from exporters.mindspore.checks import reader_violations
from exporters.mindspore.layouts import RestingParameter
from exporters.mindspore.listed import cut_primitives
from exporters.mindspore.names import Names, in_network, in_parts, renamed
from exporters.mindspore.records import ParameterLayout, StrategyCheckpoint, StrategyItem
from exporters.mindspore.stages import scheme_losses
from ir.mindspore_forms.readers import NEVER_CUT, Reader, file_name, read_stages, readers
from ir.mindspore_forms.strategies import Cuts
from ir.ops import annotation
from ir.plan import NamedLayout, Plan
from ir.violations import Violation

__all__ = [
    "ExportError",
    "check_strategy",
    "input_cuts",
    "losses",
    "optimizer_shard_size",
    "strategy_checkpoint",
]

_DIALECT = "mindspore"


def strategy_checkpoint(plan: Plan, names: Names | None = None) -> StrategyCheckpoint:
    """The checkpoint that MindSpore would save for this plan, saved once.

    Of a plan with pipeline stages it is the file that `merge_pipeline_strategys` makes of those of
    the stages: a stage and a dash stand before every parameter, and the keys of operators are as
    the graph compiler reads them.

    Args:
        plan: the plan.
        names: what the network calls the parameters, and how it keeps them.

    Raises:
        ExportError: MindSpore cannot express the plan; everything that it cannot is named.
    """
    if names is not None:
        plan = renamed(plan, names)
    violations = check_strategy(plan)
    if violations:
        raise ExportError(*violations)
    if plan.pipeline.is_single:
        return _checkpoint(plan, names)
    parts = plan.pipeline.parts
    stages = enumerate(read_stages(plan))
    found = [(stage % parts, _checkpoint(own, names)) for stage, own in stages]
    return StrategyCheckpoint(
        1,
        tuple(replace(i, stage=part) for part, own in found for i in own.strategies),
        tuple(replace(x, name=f"{part}-{x.name}") for part, own in found for x in own.layouts),
    )


def _checkpoint(plan: Plan, names: Names | None) -> StrategyCheckpoint:
    """Of a plan, or a stage of one, with the names of the network."""
    found = tuple(in_network(reader, names) for reader in readers(plan))
    items: dict[str, StrategyItem] = {}
    for key, cuts in _keyed(plan, found, names):
        items.setdefault(key, StrategyItem(key, 0, cuts))
    layouts = (each.layout() for each in _resting(plan, found))
    checkpoint = StrategyCheckpoint(1, tuple(items.values()), tuple(layouts))
    return checkpoint if names is None else in_parts(plan, checkpoint, names)


def _keyed(
    plan: Plan, found: Sequence[Reader], names: Names | None
) -> Iterator[tuple[str, tuple[Cuts, ...]]]:
    """Strategies by primitive and parameter, as a file of MindSpore's has them."""
    if not plan.graph.primitives or names is not None:
        yield from ((reader.key, reader.cuts) for reader in found if reader.form.name)
        return
    trained = {file_name(tensor) for tensor in plan.graph.parameters}
    for own in cut_primitives(plan):
        read = [maker for maker in own.primitive.makers if maker in trained]
        if read and own.primitive.kind not in NEVER_CUT:
            yield f"{own.primitive.kind}_{read[0]}", own.cuts


def check_strategy(plan: Plan) -> tuple[Violation, ...]:
    """All in a plan, and in each of its stages, that MindSpore would refuse or do otherwise."""
    every = (plan, *(stage for stage in read_stages(plan) if stage is not plan))
    return tuple(dict.fromkeys(violation for own in every for violation in _violations(own)))


def _violations(plan: Plan) -> tuple[Violation, ...]:
    if plan.space.dialect != _DIALECT:
        what = (
            f"the plan is in the dialect {plan.space.dialect!r}: "
            "MindSpore cannot place its cuts, nor keep its partial sums between operators"
        )
        return (Violation(what, "the plan's space", "plan again with --target mindspore"),)
    found = tuple(readers(plan))
    return (
        *(violation for reader in found for violation in reader_violations(reader)),
        *(violation for each in _resting(plan, found) for violation in each.violations()),
        *_shared_violations(plan, found),
        *_confused_names(found),
    )


def input_cuts(plan: Plan) -> tuple[Cuts, ...]:
    """Cuts of every dimension of the inputs, in the order of the model."""
    return tuple(layout.shards(plan.axis_sizes) for layout in plan.input_layouts.values())


def optimizer_shard_size(layouts: Iterable[ParameterLayout]) -> int | None:
    """The one number that MindSpore takes: among how many devices the optimizer shares a weight.

    0 for none, -1 for all that hold copies; None where these layouts want several numbers.
    """
    shared = [each for each in layouts if each.opt_weight_shard_size]
    sizes = {each.opt_weight_shard_size for each in shared}
    if all(each.opt_weight_shard_size == each.copies for each in shared):
        return -1 if shared else 0
    return sizes.pop() if len(sizes) == 1 else None


def losses(plan: Plan) -> tuple[str, ...]:
    """What the checkpoint of a plan leaves out, a sentence each."""
    every = (loss for stage in read_stages(plan) for loss in _stage_losses(stage))
    return tuple(dict.fromkeys((*every, *scheme_losses(plan))))


def _stage_losses(plan: Plan) -> Iterator[str]:
    found = tuple(readers(plan))
    yield from _unnamed(found)
    yield from custom.losses(plan)
    yield from _collisions(found)
    yield from _scattered(found)
    yield from _uneven_shares(plan, found)


def _resting(plan: Plan, found: tuple[Reader, ...]) -> Iterator[RestingParameter]:
    """Parameters with their first readers, in the order in which they are read. Where the plan cuts
    the optimizer state alone, MindSpore cuts the weight with it.
    """
    number = {name: index for index, (name, size, _) in enumerate(plan.mesh) if size > 1}
    rest = {planned.name: planned.states or planned.layout for planned in plan.parameters}
    seen: set[str] = set()
    for reader in found:
        for tensor, mapping in reader.parameters:
            if tensor.name not in seen:
                seen.add(tensor.name)
                dims = rest[tensor.name].dims
                at_rest = tuple(tuple(number[n] for n in dim if n in number) for dim in dims)
                yield RestingParameter(tensor, reader, reader.axes(mapping), at_rest)


def _shared_violations(plan: Plan, found: tuple[Reader, ...]) -> Iterator[Violation]:
    """MindSpore does not compile a parameter that two operators want in different layouts.

    Source: MindSpore 2.7.0, `step_parallel.cc`, CheckParameterSplit.
    """
    axes = [name for name, _, _ in plan.mesh]
    first: dict[str, tuple[str, str]] = {}
    for reader in found:
        for tensor, mapping in reader.parameters if reader.form.name else ():
            layout = NamedLayout(tuple(tuple(axes[a] for a in d) for d in reader.axes(mapping)))
            op, before = first.setdefault(tensor.name, (reader.op.name, str(layout)))
            if before != str(layout):
                what = f"{op!r} reads it as {before}, {reader.op.name!r} as {layout}"
                place = f"parameter {file_name(tensor)!r}"
                yield Violation(what, place, "let both read it alike")


def _unnamed(found: tuple[Reader, ...]) -> Iterator[str]:
    for reader in found:
        chosen = reader.form.name or reader.op.kind in NEVER_CUT or annotation(reader.op)
        if not chosen:
            yield (
                f"operator {reader.op.name!r}: MindSpore has no {reader.op.kind} "
                "that takes a strategy, so it chooses one itself"
            )


def _collisions(found: tuple[Reader, ...]) -> Iterator[str]:
    first: dict[str, Reader] = {}
    for reader in found:
        if not reader.form.name:
            continue
        before = first.setdefault(reader.key, reader)
        if before.cuts != reader.cuts:
            yield (
                f"operator {reader.op.name!r}: the file has one strategy for {reader.key!r}, "
                f"that of {before.op.name!r}"
            )


def _scattered(found: tuple[Reader, ...]) -> Iterator[str]:
    for reader in found:
        if reader.whole_result:
            yield (
                f"operator {reader.op.name!r}: MindSpore scatters the rows that it looks up over "
                "the devices of the table; apply_mindspore.py tells it to leave them whole"
            )


def _confused_names(found: tuple[Reader, ...]) -> Iterator[Violation]:
    names = dict.fromkeys(file_name(t) for reader in found for t, _ in reader.parameters)
    for name in names:
        if "-" in name:
            what = "MindSpore's tools take what stands before a dash for a pipeline stage"
            yield Violation(what, f"parameter {name!r}", "give it another name with --names FILE")


def _uneven_shares(plan: Plan, found: tuple[Reader, ...]) -> Iterator[str]:
    layouts = [each.layout() for each in _resting(plan, found)]
    sizes = {each.opt_weight_shard_size for each in layouts if each.opt_weight_shard_size}
    if optimizer_shard_size(layouts) is None:
        listed = ", ".join(str(size) for size in sorted(sizes))
        yield (
            f"the optimizer shares weights among {listed} devices; "
            "MindSpore takes one number for all parameters"
        )
