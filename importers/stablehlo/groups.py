"""What lies between two products of grouped queries is computed for all heads at once.

`b (k g) s t` is split to `b k g s t`, scaled, masked, made a softmax, and merged again: the split
goes behind, where the merge takes it away.
"""

from __future__ import annotations

from dataclasses import replace

from importers.stablehlo.draft import Draft
from importers.traced.writer import Step
from ir.ops import lookup
from ir.ops.elementwise import pointwise_rule
from ir.ops.reduction import SOFTMAXES
from ir.ops.shape import RESHAPES


def with_whole_heads(draft: Draft) -> None:
    """Write such steps a second time, for whole heads; what is not read then is dead."""
    whole: dict[str, str] = {}
    alias: dict[str, str] = {}
    steps: list[Step] = []
    for original in draft.steps:
        inputs = tuple(alias.get(n, n) for n in original.inputs)
        step = original if inputs == original.inputs else replace(original, inputs=inputs)
        source = step.inputs[0] if step.inputs else ""
        if step.kind in RESHAPES and source in whole:
            result = draft.tensors[step.outputs[0]].dims
            if result == draft.tensors[whole[source]].dims:
                alias[step.outputs[0]] = whole[source]
        elif step.kind in RESHAPES and _splits(draft, step):
            whole[step.outputs[0]] = source
        steps.append(step)
        steps += _again(draft, step, whole)
    draft.steps[:] = steps
    draft.makers.update({n: s for s in steps for n in s.outputs})


def _splits(draft: Draft, step: Step) -> bool:
    """Whether the second of four dimensions becomes two."""
    before, after = (draft.tensors[n].dims for n in (step.inputs[0], step.outputs[0]))
    return (
        len(before) == 4
        and len(after) == 5
        and (after[0], *after[3:]) == (before[0], *before[2:])
        and 1 not in after[1:3]
    )


def _again(draft: Draft, step: Step, whole: dict[str, str]) -> list[Step]:
    """The step on whole heads, with reshapes of what it reads beside them."""
    softmax = step.kind in SOFTMAXES and step.attributes.get("axis") == 4
    if not (softmax or lookup(step.kind).rule is pointwise_rule) or not whole.keys() & set(
        step.inputs
    ):
        return []
    result = draft.tensors[step.outputs[0]]
    added: list[Step] = []
    inputs: list[str] = []
    for name in step.inputs:
        dims = draft.tensors[name].dims
        if name in whole:
            inputs.append(whole[name])
        elif len(dims) <= 2:
            inputs.append(name)
        elif len(dims) == 5 and dims[1:3] == (1, 1):
            dtype = draft.tensors[name].dtype
            other = draft.tensor(f"{name}/heads", (dims[0], *dims[2:]), dtype).name
            added.append(Step(other, "Reshape", (name,), (other,), {}, step.scope))
            inputs.append(other)
        else:
            return []
    shape = (result.dims[0], result.dims[1] * result.dims[2], *result.dims[3:])
    made = draft.tensor(f"{step.outputs[0]}/heads", shape, result.dtype).name
    attributes = {**step.attributes, "axis": 3} if softmax else step.attributes
    whole[step.outputs[0]] = made
    name = f"{step.name}/heads"
    added.append(Step(name, step.kind, tuple(inputs), (made,), attributes, step.scope))
    return added
