"""Strategies by cell and primitive as cuts that operators of a graph are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporters.errors import StrategyFileError
from exporters.mindspore.apply_reading import AppliedStrategies, Strategy
from exporters.mindspore.checkpoint_import import Imported, Strategies, unknown_note
from exporters.mindspore.file_operators import Part, graph_parts
from ir.graph import OpGraph
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import NEVER_CUT, file_name
from ir.ops import OpView, annotation
from ir.violations import Violation

Parts = Mapping[tuple[str, str], list[Part]]


def pins_of_applied(graph: OpGraph, content: AppliedStrategies, devices: int) -> Imported:
    """The strategies of a file that applies them.

    Args:
        graph: as it is planned.
        content: the file.
        devices: that the plan is for.

    Raises:
        StrategyFileError: no cell is of this model, or MindSpore would refuse a strategy.
    """
    if content.devices != devices:
        what = f"it is for {content.devices} devices, not {devices}"
        raise StrategyFileError(Violation(what, "--devices", "give the number that it is for"))
    found, own = _parts(graph)
    work, unknown, count = Strategies(graph, devices), list[str](), 0
    for table, parts in ((content.strategies, found), (content.custom, own)):
        for cell, kinds in table.items():
            for kind, wanted in kinds.items():
                count += 1
                held, key = parts.get((cell, kind), []), f"{cell}: {kind}"
                each = _for_all(wanted, len(held))
                if not each:
                    unknown.append(key)
                for part, cuts in zip(held, each, strict=False):
                    take = work.take if table is content.strategies else work.take_as_cut
                    take(part, cuts, key)
    if count and len(unknown) == count:
        cells = ", ".join(sorted({cell for cell, _ in found})[:3])
        what = f"none of its {count} cells and primitives is in the model, such as {unknown[0]!r}"
        fix = f"pass the model that it was written for; its cells are {cells}"
        raise StrategyFileError(Violation(what, "STRATEGIES", fix))
    made = work.finished(content.inputs or None, unknown_note(unknown))
    return replace(made, is_of_operators=True)


def _for_all(wanted: Sequence[Strategy], count: int) -> Sequence[Strategy]:
    """A strategy for each operator, as the file gives them; none where the numbers differ."""
    if len(set(wanted)) == 1:
        return tuple(wanted[:1]) * count
    return wanted if len(wanted) == count else ()


def _parts(graph: OpGraph) -> tuple[Parts, Parts]:
    """Operators by cell and primitive in the order of the graph, and those with a given rule."""
    known: dict[tuple[str, str], list[Part]] = {}
    own: dict[tuple[str, str], list[Part]] = {}
    kinds = {op.name: op.kind for op in graph.ops}
    for part in graph_parts(graph):
        form, kind = primitive_form(part.view, part.rule), kinds[part.whole]
        if form.name and kind not in NEVER_CUT:
            known.setdefault((_cell(part.view), form.name), []).append(part)
        elif annotation(part.view.op):
            own.setdefault((_cell(part.view), kind.rpartition("::")[2]), []).append(part)
    return known, own


def _cell(view: OpView) -> str:
    """The path of the cell that holds an operator, else that of its parameter."""
    if view.op.scope:
        return view.op.scope
    weights = {tensor.name for tensor in view.graph.parameters}
    read = [t for t in view.inputs if t is not None and t.name in weights]
    return file_name(read[0]).rpartition(".")[0] if read else ""
