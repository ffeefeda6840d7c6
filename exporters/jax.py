"""A plan for JAX: a mesh and a PartitionSpec for each tensor, as JSON or as a Python module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import Template

from exporters.errors import ExportError
from exporters.jax_module import MODULE
from exporters.python_tables import table, text_tuple
from exporters.sharding import (
    Sharding,
    counted,
    module_tables,
    name_losses,
    operand_layouts,
    recompute_losses,
    result_layouts,
    sharding_of,
    uneven_violations,
)
from exporters.sharding_json import (
    LayoutRecord,
    from_document,
    known_axes,
    read_document,
    to_text,
)
from exporters.stages import one_stage, stage_losses, stages_json, step_lines
from ir.plan import NamedLayout, Plan, PlannedCollective

__all__ = ["from_json", "losses", "to_json", "to_python"]

FORMAT = "parallel-plan-jax"
_FIX = "plan again with --target jax"


@dataclass(frozen=True, slots=True)
class _Specs:
    """PartitionSpecs over these axes."""

    axes: tuple[str, ...]

    def encode(self, layout: NamedLayout) -> LayoutRecord:
        return {
            "spec": _entries(layout),
            **({"partial": list(layout.partial)} if layout.partial else {}),
        }

    def decode(self, record: LayoutRecord) -> NamedLayout:
        spec, partial = record.get("spec"), record.get("partial", [])
        if not isinstance(spec, list) or not isinstance(partial, list) or record.keys() - _KEYS:
            raise ValueError("a layout has a list 'spec', perhaps a list 'partial', and no more")
        return NamedLayout(
            tuple(known_axes(_entry(each), self.axes) for each in spec),
            known_axes(partial, self.axes),
        )


_KEYS = {"spec", "partial"}


def _entries(layout: NamedLayout) -> list[object]:
    """What a PartitionSpec holds for each dimension."""
    return [None if not d else d[0] if len(d) == 1 else list(d) for d in layout.dims]


def _entry(entry: object) -> list[object]:
    if entry is None:
        return []
    if not isinstance(entry, list):
        return [entry]
    if len(entry) < 2:
        raise ValueError("one axis stands in a spec by itself, no axis as null")
    return entry


def _codec(sharding: Sharding) -> _Specs:
    return _Specs(tuple(axis.name for axis in sharding.mesh))


def to_json(plan: Plan | Sharding) -> str:
    """Text of the JSON form.

    Raises:
        ExportError: JAX cannot lay out a tensor as the plan does.
    """
    if isinstance(plan, Plan) and not plan.pipeline.is_single:
        return stages_json(plan, FORMAT, to_json, _sent)
    sharding = _expressible(plan)
    return to_text(sharding, FORMAT, _codec(sharding))


def _sent(send: PlannedCollective) -> list[object]:
    """The spec in which a tensor goes from stage to stage."""
    return [] if send.after is None else _entries(send.after)


def from_json(text: str) -> Sharding:
    """The layouts that the JSON form holds: all of those in the plan.

    Raises:
        StrategyFileError: the text is no such file.
    """
    document = read_document(text, FORMAT)
    return from_document(document, _Specs(tuple(axis.name for axis in document.mesh)))


def losses(plan: Plan) -> tuple[str, ...]:
    """What JAX does otherwise than the plan, a sentence each."""
    if not plan.pipeline.is_single:
        return stage_losses(plan, losses)
    sharding = sharding_of(plan)
    return (
        *_partial_losses(sharding),
        *recompute_losses(plan, "jax.checkpoint"),
        *name_losses(sharding),
    )


def _expressible(plan: Plan | Sharding) -> Sharding:
    sharding = sharding_of(plan) if isinstance(plan, Plan) else plan
    violations = tuple(uneven_violations(sharding, "JAX", _FIX))
    if violations:
        raise ExportError(*violations)
    return sharding


def _partial_losses(sharding: Sharding) -> Iterator[str]:
    partial = [repr(name) for name, layout in result_layouts(sharding) if layout.partial]
    if partial:
        yield (
            f"between operators the plan leaves the terms of a sum apart in "
            f"{counted(partial, 'activations')}: no PartitionSpec asks for that, XLA adds them up "
            "where it chooses"
        )


def to_python(plan: Plan | Sharding) -> str:
    """A Python module that builds the mesh and the PartitionSpecs; it needs no other file.

    Raises:
        ExportError: JAX cannot lay out a tensor as the plan does.
    """
    whole = plan if isinstance(plan, Plan) else None
    sharding = _expressible(plan if whole is None else one_stage(whole))
    results = list(result_layouts(sharding))
    text = Template(MODULE).substitute(
        axes=text_tuple((axis.name, axis.size) for axis in sharding.mesh),
        devices=text_tuple(sharding.rank_order),
        **module_tables(sharding, _spec),
        activations=table({name: x.dims for name, x in results if not x.partial}),
        operands=table({at: x.dims for at, x in operand_layouts(sharding) if not x.partial}),
        partial=table({name: x.partial for name, x in results if x.partial}),
    )
    return text if whole is None else text + step_lines(whole, sharding, _spec)


def _spec(layout: NamedLayout) -> tuple[tuple[str, ...], ...]:
    return layout.dims
