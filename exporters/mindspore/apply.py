"""A plan as a Python file that gives every operator of a MindSpore network its strategy.

The strategy checkpoint carries only operators that read a parameter; this file carries all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from exporters.mindspore.checkpoint import input_cuts, optimizer_shard_size, strategy_checkpoint
from exporters.mindspore.checks import reader_violations
from exporters.mindspore.custom import TensorAxes, custom_operators, wide_axes
from exporters.mindspore.listed import CutPrimitive, cut_primitives
from exporters.mindspore.loss import loss_module
from exporters.mindspore.names import Names, in_network, renamed, renamed_scope
from exporters.mindspore.records import ParameterLayout
from exporters.mindspore.slicing import staged_name
from exporters.mindspore.stages import stage_module
from exporters.python_tables import table
from ir.file_primitives import cell_path
from ir.mindspore_forms.readers import NEVER_CUT, Reader, file_name, operators
from ir.plan import Plan

__all__ = ["apply_module", "operator_strategies"]

Cuts: TypeAlias = tuple[tuple[int, ...], ...]
Strategies: TypeAlias = Mapping[str, Mapping[str, list[Cuts]]]
"""By the path of a cell and the name of a primitive: cuts, in the order of the network."""
Axes: TypeAlias = tuple[TensorAxes, ...]
CustomLayouts: TypeAlias = Mapping[str, Mapping[str, Sequence[tuple[Axes, Axes]]]]
"""The same of primitives that MindSpore does not know: axes of inputs and of results."""

_MODULE = '''"""How a plan splits {model} on {devices} devices, for MindSpore.

Written by `planner export --format mindspore-apply`. Give every operator its strategy before the
network is compiled in the mode semi_auto_parallel:

    from apply_mindspore import apply
    for line in apply(network):
        print(line)  # an operator that this network does not hold as the plan has it

A cell is known by its path and an operator by the cell that holds it and the name of its primitive.
Several of one name in a cell take their strategies in the order in which the cell makes them.
What the network does not keep as an attribute of a cell cannot be sharded this way.

Call it before the optimizer is made: it also keeps the optimizer from sharing the weights in WHOLE.
"""

DEVICES = {devices}

DATASET_STRATEGY = {inputs}
"""How the inputs arrive: the cuts of every dimension."""

ALL_TO_ALL = {all_to_all}
"""Whether slices may be exchanged. AutoParallel does; set_auto_parallel_context is to be told so by
enable_alltoall.
"""

OPTIMIZER_SHARD_SIZE = {shard_size}
"""Among how many devices the optimizer shares a weight: 0 is none, -1 all that hold copies."""

WHOLE = {whole}
"""Parameters that it does not share although it shares others."""

STRATEGIES = {strategies}
"""By cell and primitive: for every operator the cuts of each dimension of each of its inputs."""

SHARED = {shared}
"""By cell and primitive, where strategies differ: the one for a primitive that is called several
times, as MindSpore takes one strategy for all its calls.
"""

RESULTS = {results}
"""By cell, primitive and cuts: cuts of the result, where MindSpore would choose others."""

PARAMETER_PLAN = {parameters}
"""Cuts of parameters, as the operators use them that read them first. Instead of `apply`, inputs
and parameters alone may be given, and the rest left to sharding propagation:
`mindspore.shard(network, DATASET_STRATEGY, parameter_plan=PARAMETER_PLAN)`.
"""

{custom}
def apply(network, strategies=None, follow=False):
    """Call `.shard()` on the operators of a network; returns a line for each that was not found.

    With `follow`, for the mode sharding_propagation, a primitive whose calls have several
    strategies gets none: there each call follows its neighbours, as all that no cell holds does.
    """
    cells = dict(network.cells_and_names())
    missing = []
    tables = [(STRATEGIES if strategies is None else strategies, _cut){more}]
    for table, shard in tables:
        for path, kinds in table.items():
            for kind, wanted in kinds.items():
                found = _primitives(cells[path], kind) if path in cells else []
                if found and len(set(wanted)) == 1:
                    wanted = wanted[:1] * len(found)
                if not found and all(len(each[-1]) == 1 for each in wanted):
                    found = _primitives(cells[path], _BIASES.get(kind)) if path in cells else []
                    wanted = [_on_rows(each) if kind == "Add" else each for each in wanted]
                if not found and _is_layer(kind, wanted):
                    found = _held(cells, path, kind, table)
                    if len(found) == 1 and len(set(wanted)) == 1:
                        wanted = wanted[:1]
                if len(found) != len(wanted):
                    counts = f"{{len(wanted)}} {{kind}} in the plan, {{len(found)}} in the cell"
                    shared = SHARED.get(path, {{}}).get(kind)
                    if not found and path not in cells:
                        missing.append(f"{{path}}: the network has no such cell")
                        break
                    if len(found) != 1 or shared is None:
                        missing.append(f"{{path}}: {{counts}}")
                        continue
                    if follow:
                        missing.append(f"{{path}}: {{counts}}, which follows its neighbours")
                        continue
                    missing.append(f"{{path}}: {{counts}}, which gets the commonest strategy")
                    wanted = [shared]
                for primitive, each in zip(found, wanted):
                    shard(primitive, each, RESULTS.get(path, {{}}))
    for parameter in network.get_parameters():
        if parameter.name in WHOLE:
            parameter.parallel_optimizer = False
    return missing


def _cut(primitive, cuts, results):
    result = results.get((primitive.name, cuts))
    primitive.shard(cuts, *([(result,)] if result else []))


{layouts}def _is_layer(kind, wanted):
    """Whether operators are those of a layer such as `nn.ReLU`, all on as many dimensions: the
    plan may not know the cell of one.
    """
    python = {{"Add", "Sub", "Mul", "Muls", "Adds", "RealDiv", "Div", "Neg", "Pow", "Cast"}}
    return kind not in python and len({{tuple(map(len, each)) for each in wanted}}) == 1


def _held(cells, path, kind, table):
    """The operators of a kind of the cells in a cell that the plan does not name, else of those
    around it.
    """
    while path and path not in cells:
        path = path.rpartition(".")[0]
    inside = f"{{path}}." if path else ""
    beneath = [
        name for name in cells
        if name.startswith(inside) and name != path and kind not in table.get(name, ())
    ]
    around = [path]
    while around[-1]:
        around.append(around[-1].rpartition(".")[0])
    for paths in (beneath, *([each] for each in around[1:])):
        found = [each for name in paths for each in _primitives(cells[name], kind)]
        if found:
            return found
    return []


def _primitives(cell, kind):
    """The operators that a cell itself holds, in the order in which it made them."""
    held = list(vars(cell).values())
    return [each for each in held if hasattr(each, "add_prim_attr") and each.name == kind]


_BIASES = {{"Add": "BiasAdd", "BiasAdd": "Add"}}


def _on_rows(cuts):
    """The strategy of a bias as `nn.Dense` adds it, which merges the rows."""
    rows = 1
    for pieces in cuts[0][:-1]:
        rows *= pieces
    return ((rows, *cuts[0][-1:]), *cuts[1:])
'''

_CUSTOM = '''AXES = {axes}
"""Names and sizes of the axes of the mesh, outermost first."""

CUSTOM = {custom}
"""Primitives of the network's own: for each dimension of the inputs, and of the results, the axes
that cut it.
"""

'''

_LAYOUTS = '''def _lay(primitive, wanted, _):
    """MindSpore does not know the primitive, so it is told the layouts of inputs and results."""
    from mindspore import Layout

    layout = Layout(tuple(size for _, size in AXES), tuple(name for name, _ in AXES))
    primitive.add_prim_attr("self_define_shard", True)
    primitive.shard(*(tuple(layout(*map(_axis, dims)) for dims in side) for side in wanted))


def _axis(axes):
    """A whole dimension is "None"; one axis is its name, several are a tuple."""
    return axes if len(axes) > 1 else axes[0] if axes else "None"


'''


def apply_module(plan: Plan, names: Names | None = None) -> str:
    """Text of the file; it imports no more than MindSpore's `Layout`.

    Args:
        plan: the plan.
        names: what the network calls the parameters; its cells are renamed by them too.

    Raises:
        ExportError: MindSpore cannot express the plan.
    """
    original, plan = plan, plan if names is None else renamed(plan, names)
    layouts = strategy_checkpoint(original, names).layouts
    strategies = operator_strategies(plan, names)
    text = _MODULE.format(
        model=re.sub(r"[^\w.-]", "_", plan.graph.name, flags=re.ASCII) or "the model",
        devices=plan.devices,
        inputs=input_cuts(plan),
        strategies=_table(strategies),
        shared=table(_shared(plan, names)),
        results=_results(plan, names),
        all_to_all=plan.request.get("all_to_all") is not False,
        **_custom_parts(plan, names),
        **_optimizer(layouts),
        parameters=_parameter_plan(layouts),
    )

    def renamed_cell(path: str) -> str:
        return path if names is None else renamed_scope(path, names)

    return text + loss_module(plan) + stage_module(plan, renamed_cell)


def _optimizer(layouts: Sequence[ParameterLayout]) -> dict[str, str]:
    """Where the layouts want several sizes the largest is taken; the losses of the plan say so."""
    size = optimizer_shard_size(layouts)
    if size is None:
        size = max(each.opt_weight_shard_size for each in layouts)
    whole = [each for each in layouts if not each.opt_weight_shard_size and each.copies > 1]
    kept = dict.fromkeys(staged_name(each.name)[1] for each in whole if size)
    names = "".join(f"    {name!a},\n" for name in kept)
    return {"shard_size": str(size), "whole": f"{{\n{names}}}" if names else "set()"}


def _parameter_plan(layouts: Sequence[ParameterLayout]) -> str:
    """A line for each parameter that is cut; what is left out is whole, as it is without a plan."""
    found = {staged_name(each.name)[1]: each.cuts for each in layouts}
    return table({name: cuts for name, cuts in found.items() if set(cuts) - {1}})


def _custom_parts(plan: Plan, names: Names | None) -> dict[str, str]:
    """What the file has for primitives that MindSpore does not know, if there are any."""
    layouts = _custom(plan, names)
    if not layouts:
        return {"custom": "", "more": "", "layouts": ""}
    tables = _CUSTOM.format(axes=wide_axes(plan), custom=_table(layouts))
    return {"custom": tables, "more": ", (CUSTOM, _lay)", "layouts": _LAYOUTS}


def _custom(plan: Plan, names: Names | None) -> CustomLayouts:
    """Layouts of inputs and results of operators with a given rule, as `operator_strategies`."""
    out: dict[str, dict[str, list[tuple[Axes, Axes]]]] = {}
    for each in custom_operators(plan) if plan.devices > 1 else ():
        for cell in _cells(each.reader, names):
            found = out.setdefault(cell, {}).setdefault(each.primitive, [])
            found.append((each.inputs, each.results))
    return out


def _table(strategies: Mapping[str, Mapping[str, Sequence[object]]]) -> str:
    """A line for each primitive of each cell, in ASCII whatever the names are."""
    lines = ["{"]
    for cell, kinds in strategies.items():
        lines.append(f"    {cell!a}: {{")
        lines += [f"        {kind!a}: {cuts}," for kind, cuts in kinds.items()]
        lines.append("    },")
    return "\n".join([*lines, "}"])


def operator_strategies(plan: Plan, names: Names | None = None) -> Strategies:
    """Cuts of every operator that MindSpore takes a strategy for, in graph order.

    With `names` the plan must be `renamed` by them.
    """
    out: dict[str, dict[str, list[Cuts]]] = {}
    if plan.graph.primitives and names is None:
        for own in cut_primitives(plan):
            if own.primitive.kind not in NEVER_CUT and not own.is_refused:
                held = out.setdefault(cell_path(own.primitive.name), {})
                held.setdefault(own.primitive.kind, []).append(own.cuts)
        return out
    for each in operators(plan):
        found = in_network(each, names)
        if found.form.name and found.op.kind not in NEVER_CUT and not reader_violations(found):
            for cell in _cells(found, names):
                out.setdefault(cell, {}).setdefault(found.form.name, []).append(found.cuts)
    return out


def _shared(plan: Plan, names: Names | None) -> Mapping[str, Mapping[str, Cuts]]:
    """For each kind that a cell cuts in several ways the commonest that fits all its operands."""
    groups: dict[tuple[str, str], list[CutPrimitive]] = {}
    for own in cut_primitives(plan) if names is None else ():
        if own.primitive.kind not in NEVER_CUT and not own.is_refused:
            place = cell_path(own.primitive.name), own.primitive.kind
            groups.setdefault(place, []).append(own)
    out: dict[str, dict[str, Cuts]] = {}
    for (cell, kind), group in groups.items():
        common = [cuts for cuts, _ in Counter(own.cuts for own in group).most_common()]
        fitting = [cuts for cuts in common if all(_fits(cuts, own) for own in group)]
        if len(common) > 1 and fitting:
            out.setdefault(cell, {})[kind] = fitting[0]
    return out


def _fits(cuts: Cuts, own: CutPrimitive) -> bool:
    """Whether a strategy divides the operands of a primitive."""
    dims = own.primitive.operands
    return [len(each) for each in cuts] == [len(each) for each in dims] and all(
        size % cut == 0
        for each, sizes in zip(cuts, dims, strict=True)
        for cut, size in zip(each, sizes, strict=True)
    )


def _results(plan: Plan, names: Names | None) -> str:
    """What the file has for lookups whose result MindSpore would scatter."""
    out: dict[str, dict[tuple[str, Cuts], tuple[int, ...]]] = {}
    if plan.graph.primitives and names is None:
        for own in cut_primitives(plan):
            if own.reader is not None and own.reader.whole_result and not own.is_refused:
                held = out.setdefault(cell_path(own.primitive.name), {})
                held[own.primitive.kind, own.cuts] = (*own.cuts[1], *own.cuts[0][1:])
        return table(out)
    for each in operators(plan):
        found = in_network(each, names)
        if found.whole_result and not reader_violations(found):
            for cell in _cells(found, names):
                out.setdefault(cell, {})[found.form.name, found.cuts] = found.whole_result
    return table(out)


def _cells(found: Reader, names: Names | None) -> tuple[str, ...]:
    """Paths of the cells that hold an operator: that of its scope, else that of its parameter."""
    if names is None:
        return (found.op.scope or _owner(found),)
    if found.parameters:
        new = names.parts(file_name(found.parameters[0][0]))
        return tuple(name.rpartition(".")[0] for name in new)
    return (renamed_scope(found.op.scope, names),)


def _owner(found: Reader) -> str:
    return file_name(found.parameters[0][0]).rpartition(".")[0] if found.parameters else ""
