"""A step of a plan on virtual devices: every stage on its own ranks, micro-batches one after
another. A plan without stages is one stage and one micro-batch.

A micro-batch goes forward through all stages and back; what crosses a cut is sent piece by piece in
the layout that the plan gives it. Gradients are added up over the micro-batches, and reduced when
the plan says: in each of them, or once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from executors.backward import Backward, gradient_name
from executors.device import with_attributes
from executors.device_algorithms.losses import sums_losses
from executors.evaluation import Evaluator
from executors.exchange import Communication, ExchangeError
from executors.placement import Array, Spread, spread, whole
from executors.reference import Forward, Mismatch, Run
from executors.spmd import Runner
from ir.batch import with_batch
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph, Role
from ir.layout import Layout
from ir.ops import LOSS
from ir.plan import NamedLayout, Plan, PlannedCollective, is_once
from ir.plan_enums import Cause
from ir.plan_stages import leaving, once_in_step, received, stage_plan
from ir.semantics.call import NotRunError


def batch_graph(plan: Plan) -> OpGraph:
    """The graph of a plan on all samples of a step, composites as their parts.

    Raises:
        BatchError: the batch cannot be followed through an operator.
    """
    graph = plan.graph
    if plan.pipeline.is_single:
        return graph
    opened = graph.with_ops(leaf for op in graph.ops for leaf in _leaves(op))
    return with_batch(opened, plan.pipeline.micro_batches * graph.batch)


def _leaves(op: Op) -> Iterator[Op]:
    for part in op.parts:
        yield from _leaves(part)
    if not op.parts:
        yield op


def run_step(
    plan: Plan, values: Mapping[str, Array], runner: Runner | None = None, *, training: bool = False
) -> Run:
    """Run a step of a plan.

    Args:
        plan: the plan.
        values: numbers of every input, parameter, buffer and constant of its graph, of all samples
            of the step. A tensor that an operator makes and that has numbers here takes these.
        runner: runs the operators forward; ONNX's reference if none is given.
        training: run the backward pass too, which is not in the graph; the gradients of the
            parameters are outputs then.
    """
    return _Step(plan, values, runner or Evaluator(), training=training).run_all()


@dataclass(slots=True)
class _Sent:
    """What really crossed a cut."""

    forward: int = 0
    backward: int = 0
    nbytes: set[int] = field(default_factory=set)


class _Step:
    """A step under way."""

    def __init__(
        self, plan: Plan, values: Mapping[str, Array], runner: Runner, *, training: bool
    ) -> None:
        self.plan, self.values, self.runner, self.training = plan, values, runner, training
        self.micro_batches = plan.pipeline.micro_batches
        self.run = Run()
        self.views = [self._view(stage) for stage in range(len(plan.pipeline.stages))]
        """What each stage does in a micro-batch, among all operators of the network."""
        self.graph = batch_graph(plan)
        self.summed: list[dict[str, Spread]] = [{} for _ in self.views]
        """By stage, gradients of its parameters over the micro-batches so far."""
        self.parts: dict[str, list[Array]] = {}
        """Outputs of the micro-batches."""
        self.sent: dict[tuple[int, str], _Sent] = {}
        self.last: list[Forward] = []

    def run_all(self) -> Run:
        """All micro-batches, then what happens once."""
        self._check_counts()
        for micro in range(self.micro_batches):
            self._micro_batch(micro)
        for stage, forward in enumerate(self.last):
            self._reduce(stage, forward)
        self._compare_sends()
        self._join_outputs()
        if self.micro_batches > 1:
            self.run.mismatches = list(dict.fromkeys(self.run.mismatches))
        return self.run

    def _view(self, stage: int) -> Plan:
        """What a stage does in a micro-batch, among all operators of the network; if that is the
        only one, gradients are reduced in it.
        """
        view = replace(stage_plan(self.plan, stage), graph=self.plan.graph)
        if self.micro_batches > 1:
            return view
        own = (
            i
            for i in self.plan.collectives
            if i.stage == stage and i.cause != Cause.UPDATED_PARAMETERS
        )
        return replace(view, collectives=tuple(replace(item, stage=0) for item in own))

    def _late(self, stage: int, name: str) -> list[PlannedCollective]:
        """What is sent of a parameter or its gradient behind all micro-batches."""
        every = (i for i in once_in_step(self.plan, stage) if i.tensor == name)
        kept = (i for i in every if self.micro_batches > 1 or i.cause == Cause.UPDATED_PARAMETERS)
        return [replace(item, backward=0, hidden_s=0.0) for item in kept]

    def _check_counts(self) -> None:
        """What runs in a micro-batch runs in all of them alike."""
        for item in self.plan.collectives:
            if is_once(item, self.micro_batches):
                continue
            whole_times, rest = divmod(item.count, self.micro_batches)
            wrong = rest or item.backward % self.micro_batches
            if wrong or (item.cause != Cause.INSIDE and whole_times != 1):
                self.run.mismatches.append(
                    Mismatch(
                        item.tensor,
                        item.operator,
                        f"{item.kind.replace('_', '-')} {item.count} times",
                        f"{self.micro_batches} times",
                    )
                )

    # One micro-batch

    def _micro_batch(self, micro: int) -> None:
        forwards = self._forward(micro)
        gradients: dict[str, Spread] = {}
        for stage in reversed(range(len(forwards) if self.training else 0)):
            gradients = self._backward(stage, forwards, gradients)
        for forward in forwards:
            forward.compare_inside()
            self._take(forward.run)
        self.last = forwards

    def _forward(self, micro: int) -> list[Forward]:
        values = self._values(micro)
        out: list[Forward] = []
        for stage, view in enumerate(self.views):
            shown = replace(view, graph=self._numbered(view.graph, micro))
            forward = Forward(shown, values, self.runner)
            for send in received(self.plan, stage):
                self._hand_on(stage, send, out[-1], forward)
            own = self.plan.pipeline.stages[stage]
            for op in shown.graph.ops[own.start : own.end]:
                forward.step(op)
            out.append(forward)
        return out

    def _hand_on(
        self, stage: int, send: PlannedCollective, source: Forward, target: Forward
    ) -> None:
        """Every device of a stage sends its piece to its place in the next one."""
        if send.tensor not in source.held and send.tensor not in source.values:
            return
        try:
            tensor = source.handed_on(send.tensor, source.named_layout(send.before))
        except (NotRunError, ExchangeError) as error:
            self.run.not_run[send.operator] = str(error)
            return
        there = self._moved(tensor, target, send.after)
        sent = self._note(stage, send.tensor, tensor, there)
        sent.forward += 1
        target.receive(send.tensor, there)

    def _moved(self, tensor: Spread, target: Forward, layout: NamedLayout | None) -> Spread:
        """The same on the devices of another stage: piece by piece where its mesh is as large."""
        if tensor.mesh.axes == target.mesh.axes:
            return replace(tensor, mesh=target.mesh, shards=tuple(p.copy() for p in tensor.shards))
        return spread(whole(tensor), target.named_layout(layout), target.mesh)

    def _note(self, stage: int, name: str, *ends: Spread) -> _Sent:
        """What a device sends or receives at most of a tensor that goes to the stage beside."""
        item_bytes = dtype_bytes(self.plan.graph.tensors[name].dtype)
        nbytes = int(max(part.size for end in ends for part in end.shards) * item_bytes)
        self.run.sent.append(Communication("point_to_point", (), nbytes))
        sent = self.sent.setdefault((stage, name), _Sent())
        sent.nbytes.add(nbytes)
        return sent

    def _backward(
        self, stage: int, forwards: Sequence[Forward], gradients: Mapping[str, Spread]
    ) -> dict[str, Spread]:
        """The gradients that the stage sends back."""
        forward = forwards[stage]
        backward = Backward(forward)
        for send in leaving(self.plan, stage):
            if send.tensor in gradients:
                backward.receive(send.tensor, gradients[send.tensor])
        own = self.plan.pipeline.stages[stage]
        for op in reversed(forward.plan.graph.ops[own.start : own.end]):
            backward.step(op)
        self._add_up(stage, backward)
        out: dict[str, Spread] = {}
        for send in received(self.plan, stage):
            if send.tensor not in backward.with_gradient or send.tensor not in forward.held:
                continue
            try:
                gradient = backward.handed_back(send.tensor, forward.named_layout(send.after))
            except (NotRunError, ExchangeError) as error:
                forward.run.not_run[send.operator] = f"backward: {error}"
                continue
            out[send.tensor] = self._moved(gradient, forwards[stage - 1], send.before)
            self._note(stage, send.tensor, gradient, out[send.tensor]).backward += 1
        return out

    def _add_up(self, stage: int, backward: Backward) -> None:
        """Add the gradients of the parameters to those of the micro-batches before."""
        for tensor in self.plan.graph.parameters:
            name = tensor.name
            if name not in backward.arrived:
                continue
            backward.gather_again(name)
            try:
                found = backward.collected(name, self._meeting(stage, backward, name))
            except (NotRunError, ExchangeError) as error:
                backward.run.not_run[name] = f"gradient: {error}"
                continue
            old = self.summed[stage].get(name)
            if old is not None:
                pairs = zip(old.shards, found.shards, strict=True)
                found = replace(found, shards=tuple(a + b for a, b in pairs))
            self.summed[stage][name] = found

    def _meeting(self, stage: int, backward: Backward, name: str) -> Layout:
        """Where gradients of one parameter are added: at rest, unless something is sent late."""
        planned = backward.forward.resting.get(name)
        if planned is None or planned.states is not None or self._late(stage, name):
            return backward.arrived[name][0].layout
        return backward.forward.layout(planned.gradient or planned.layout)

    def _take(self, run: Run) -> None:
        self.run.sent += run.sent
        self.run.mismatches += run.mismatches
        self.run.not_run |= run.not_run
        self.run.disagreement = max(self.run.disagreement, run.disagreement)
        for name, array in run.outputs.items():
            self.parts.setdefault(name, []).append(array)

    # Micro-batches of values

    def _values(self, micro: int) -> dict[str, Array]:
        """The numbers of one micro-batch: its part of what grows with the batch. Constant indices
        count from the first sample of each.
        """
        tensors = self.plan.graph.tensors
        out = dict(self.values)
        for name, array in self.values.items():
            tensor = tensors.get(name)
            if tensor is not None:
                indices = tensor.role is Role.CONSTANT and not tensor.is_float
                out[name] = self._part(array, tensor.dims, 0 if indices else micro)
        return out

    def _part(self, array: Array, dims: Sequence[int], micro: int) -> Array:
        for axis, (size, whole_size) in enumerate(zip(dims, array.shape, strict=True)):
            if size != whole_size:
                return np.take(array, range(micro * size, (micro + 1) * size), axis=axis)
        return array

    def _numbered(self, graph: OpGraph, micro: int) -> OpGraph:
        """The graph whose losses count rows through all micro-batches, as the whole model does."""
        if not micro:
            return graph

        def numbered(op: Op) -> Op:
            dims = graph.tensors[op.inputs[0]].dims if op.kind == LOSS else ()
            if not dims:
                return op
            rows = int(np.prod(dims[:-1] if len(dims) > 1 else dims))
            return with_attributes(op, first_row=micro * rows)

        return replace(graph, ops=tuple(numbered(op) for op in graph.ops))

    # Once in a step

    def _reduce(self, stage: int, forward: Forward) -> None:
        """Reduce what was added up, and compare with the layout in which a gradient rests."""
        forward.run = Run()
        scale = 1.0 if sums_losses(self.plan.graph) else 1.0 / self.micro_batches
        for name, total in self.summed[stage].items():
            try:
                gradient = whole(self._at_rest(stage, forward, name, total)) * scale
            except (NotRunError, ExchangeError) as error:
                self.run.not_run[name] = f"gradient: {error}"
                continue
            known = self.run.outputs.get(gradient_name(name))
            self.run.outputs[gradient_name(name)] = gradient if known is None else known + gradient
        self._take(forward.run)

    def _at_rest(self, stage: int, forward: Forward, name: str, total: Spread) -> Spread:
        """The gradient of a parameter where its optimizer state is; then the updated parameter is
        brought together again, if it was shared out.
        """
        planned = forward.resting.get(name)
        if planned is None:
            raise NotRunError(f"stage {stage} reads it, and the plan does not say that it holds it")
        path = self._late(stage, name)
        tensor = forward.along(total, [i for i in path if i.cause != Cause.UPDATED_PARAMETERS])
        if planned.states is None:
            rest = forward.layout(planned.gradient or planned.layout)
        else:
            parts = forward.layout(planned.states)
            rest = replace(parts, partial=tensor.layout.partial)
            updated = spread(self.values[name], parts, forward.mesh)
            updated = forward.along(
                updated, [i for i in path if i.cause == Cause.UPDATED_PARAMETERS]
            )
            forward.at(updated, forward.layout(planned.layout), name, "")
        tensor = forward.at(tensor, rest, name, "")
        self._note_shared(stage, name, tensor)
        return tensor

    def _note_shared(self, stage: int, name: str, tensor: Spread) -> None:
        """What a stage sends of the gradient of a parameter that other stages hold too."""
        for shared in self.plan.pipeline.shared:
            if shared.tensor == name and stage in shared.stages:
                item_bytes = dtype_bytes(self.plan.graph.tensors[name].dtype)
                nbytes = int(max(part.size for part in tensor.shards) * item_bytes)
                self.run.sent.append(Communication("point_to_point", (), nbytes))
                if nbytes > round(shared.nbytes):
                    texts = [f"{n:,} bytes between stages" for n in (round(shared.nbytes), nbytes)]
                    self.run.mismatches.append(Mismatch(name, "", *texts))

    # After the step

    def _compare_sends(self) -> None:
        """Hold what crossed the cuts against the plan."""
        stages = range(1, len(self.views))
        for stage in stages:
            for item in received(self.plan, stage):
                found = self.sent.pop((stage, item.tensor), _Sent())
                count = found.forward + found.backward
                planned = (item.count, item.backward, {round(item.nbytes)})
                if planned != (count, found.backward, found.nbytes):
                    self.run.mismatches.append(
                        Mismatch(item.tensor, item.operator, _send_text(item.count, item.backward,
                                 {round(item.nbytes)}), _send_text(count, found.backward,
                                 found.nbytes))
                    )  # fmt: skip

    def _join_outputs(self) -> None:
        """Outputs of the step from those of its micro-batches."""
        for name, parts in self.parts.items():
            if len(parts) == 1:
                self.run.outputs[name] = parts[0]
                continue
            dims = self.graph.tensors[name].dims if name in self.graph.tensors else ()
            axis = next((a for a, (x, y) in enumerate(zip(parts[0].shape, dims, strict=False))
                         if x != y), None)  # fmt: skip
            if axis is not None:
                self.run.outputs[name] = np.concatenate(parts, axis=axis)
            else:
                mean = 1.0 if sums_losses(self.plan.graph) else 1.0 / len(parts)
                self.run.outputs[name] = np.asarray(sum(parts[1:], parts[0]) * mean)


def _send_text(count: int, backward: int, nbytes: set[int]) -> str:
    if not count:
        return ""
    sizes = ", ".join(f"{n:,}" for n in sorted(nbytes))
    return f"{count} point-to-point messages of {sizes} bytes, {backward} of them back"
