"""The forward pass of one stage of a plan, on as many virtual devices as it has, in one process.

Every tensor is cut by its layout, every operator runs on the parts of each device, and every change
of layout moves data. The plan says through which layouts a tensor goes; which collective that is,
over which ranks and of how many bytes, follows here from who takes what from whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from executors.algorithms import ALGORITHMS
from executors.exchange import Communication, ExchangeError, exchanged
from executors.placement import Array, Spread, disagreement, spread, whole
from executors.splits import completed
from executors.spmd import Around, Runner, run_operator
from ir.dtypes import dtype_bytes
from ir.graph import Op, Role
from ir.layout import Layout
from ir.ops import LOSS
from ir.plan import LEAVES, NamedLayout, Plan, PlannedCollective, PlannedOperator
from ir.plan_enums import Cause
from ir.plan_stages import stage_mesh
from ir.semantics.call import NotRunError
from topology.mesh import Mesh

FORWARD = frozenset({Cause.FORWARD, Cause.PARAMETER_GATHER})


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A message that was planned otherwise than it was sent."""

    tensor: str
    operator: str
    planned: str
    """What the plan lists, empty for nothing."""
    sent: str
    """What really moved, empty for nothing."""


@dataclass(slots=True)
class Run:
    """What came out of a run."""

    outputs: dict[str, Array] = field(default_factory=dict)
    sent: list[Communication] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    """Operators that could not be run, and why."""
    disagreement: float = 0.0
    """Largest difference between devices that should hold the same."""


def mesh_of(plan: Plan, stage: int = 0) -> Mesh:
    """The mesh of a plan, or of one of its stages."""
    return Mesh.of_rows(stage_mesh(plan, stage))


@dataclass(frozen=True, slots=True)
class Step:
    """What one operator read and made, kept for the backward pass."""

    operands: tuple[Spread | None, ...]
    results: tuple[Spread, ...]
    """Before their sums were completed."""


class Forward:
    """A forward pass, and what the backward pass needs of it."""

    def __init__(self, plan: Plan, values: Mapping[str, Array], runner: Runner) -> None:
        self.plan, self.values, self.runner = plan, values, runner
        self.mesh = mesh_of(plan)
        self.axes = {name: i for i, (name, _, _) in enumerate(plan.mesh)}
        self.run = Run()
        self.held: dict[str, Spread] = {}
        self.steps: dict[str, Step] = {}
        self.operators = {op.name: op for op in plan.operators}
        self.resting = {t.name: t for t in plan.tensors if t.role != "shared"}
        self.shared = {t.name: t for t in plan.tensors if t.role == "shared"}
        self.paths = paths_of(plan.collectives, FORWARD)
        self.around = Around(self.mesh, constants=values)
        self.traced = frozenset(plan.graph.gradients.values())
        self.inside_log: dict[str, list[Communication]] = {}

    def step(self, op: Op) -> None:
        """Run one operator, unless something that it needs was not run."""
        planned = self.operators[op.name]
        if any(n and n not in self.held and not self._is_given(n) for n in op.inputs):
            self.run.not_run[op.name] = "something that it reads was not run"
            return
        try:
            operands = [
                self._delivered(n, op, i, layout) if n else None
                for i, (n, layout) in enumerate(zip(op.inputs, planned.inputs, strict=True))
            ]
            if not op.outputs:
                self._deliver_output(op, operands)
                return
            results, sent = self._results(op, planned, operands)
        except (NotRunError, ExchangeError) as error:
            self.run.not_run[op.name] = str(error)
            return
        self.inside_log[op.name] = sent
        for name, result in zip((n for n in op.outputs if n), results, strict=True):
            self._keep(name, result)
            if op.kind == LOSS or name in self.traced:
                self.run.outputs[name] = whole(self.held[name])

    def _results(
        self, op: Op, planned: PlannedOperator, operands: Sequence[Spread | None]
    ) -> tuple[list[Spread], list[Communication]]:
        """Results in the layouts that the plan gives them, and what was sent inside."""
        assignment = tuple(factor for _, factor in planned.split)
        graph = self.plan.graph
        found, task = run_operator(
            op, graph, operands, assignment, self.runner, ALGORITHMS, self.around
        )
        self.steps[op.name] = Step(tuple(operands), tuple(found))
        sent, out = list(task.log), []
        for tensor, result, layout in zip(task.results, found, planned.outputs, strict=True):
            if layout is None:
                raise NotRunError(f"the plan has no layout of {tensor.name}")
            full, message = completed(result, self.layout(layout), dtype_bytes(tensor.dtype))
            if full.layout != self.layout(layout):
                raise NotRunError(f"{tensor.name} is in {full.layout}, planned in {layout}")
            sent += [message] if message else []
            out.append(full)
        return out, sent

    def _is_given(self, name: str) -> bool:
        return name in self.values

    def _source(self, name: str) -> Spread:
        """What the readers of a tensor start from."""
        if name not in self.held:
            array = self.values[name]
            planned = self.resting.get(name)
            layout = self.layout(planned.layout) if planned else Layout(((),) * array.ndim)
            self._keep(name, spread(array, layout, self.mesh))
        return self.held[name]

    def _keep(self, name: str, tensor: Spread) -> None:
        """Hold a tensor; one with several readers first goes to the layout that they share."""
        self.run.disagreement = max(self.run.disagreement, disagreement(tensor))
        if name in self.values:
            tensor = spread(self.values[name], tensor.layout, self.mesh)
        tensor = self._along(tensor, name, "", -1)
        planned = self.shared.get(name)
        if planned is not None:
            tensor = self.at(tensor, self.layout(planned.layout), name, "")
        self.held[name] = tensor

    def _delivered(self, name: str, op: Op, operand: int, layout: NamedLayout | None) -> Spread:
        tensor = self._source(name)
        if layout is None:
            return tensor
        tensor = self._along(tensor, name, op.name, operand)
        return self.at(tensor, self.layout(layout), name, op.name)

    def _along(self, tensor: Spread, name: str, operator: str, operand: int) -> Spread:
        """Follow the messages that the plan lists for a reader."""
        return self.along(tensor, self.paths.get((name, operator, operand), ()))

    def along(self, tensor: Spread, path: Iterable[PlannedCollective]) -> Spread:
        """Send what a path of the plan lists, and compare."""
        for item in path:
            before, after = self.layout(_known(item.before)), self.layout(_known(item.after))
            tensor = self.at(tensor, before, item.tensor, item.operator)
            tensor, message = exchanged(tensor, after, self._item_bytes(item.tensor))
            self._compare(item, message)
        return tensor

    def layout_of_result(self, op: Op, name: str) -> Layout:
        """The layout that the plan gives to a result."""
        names = [n for n in op.outputs if n]
        return self.layout(_known(self.operators[op.name].outputs[names.index(name)]))

    def receive(self, name: str, tensor: Spread) -> None:
        """Take a tensor that came from another stage."""
        self._keep(name, tensor)

    def handed_on(self, name: str, layout: Layout) -> Spread:
        """A tensor as it leaves for the next stage."""
        path = self.paths.get((name, "", LEAVES), ())
        return self.at(self.along(self._source(name), path), layout, name, "")

    def repeat_gather(
        self,
        gathers: Paths,
        name: str,
        operator: str,
        operand: int,
        *,
        needed: bool,
    ) -> None:
        """A parameter that was gathered for use is gathered again for the backward pass, if the
        plan says so.

        Args:
            gathers: paths of parameters.
            name: the parameter.
            operator: its reader; empty for all of them together.
            operand: which operand of that.
            needed: whether the backward pass reads it.
        """
        path = gathers.get((name, operator, operand), ())
        repeated = (name, operator, operand) in gathers.repeated
        if path and needed and not repeated:
            self.run.mismatches.append(Mismatch(name, operator, "", "gathered again"))
        if path and repeated and name in self.resting:
            planned = self.resting[name]
            array = self.values[name]
            source = spread(array, self.layout(planned.layout), self.mesh)
            before = self.paths.get((name, "", -1), ()) if operator else ()
            if before and path[0].before is not None:
                source = spread(array, self.layout(path[0].before), self.mesh)
            self.along(source, path)

    def at(self, tensor: Spread, layout: Layout, name: str, operator: str) -> Spread:
        """The tensor in a layout that should need no message."""
        if tensor.layout == layout:
            return tensor
        tensor, message = exchanged(tensor, layout, self._item_bytes(name))
        if message is not None:
            self.run.sent.append(message)
            self.run.mismatches.append(Mismatch(name, operator, "", self.text(message)))
        return tensor

    def _deliver_output(self, op: Op, operands: Sequence[Spread | None]) -> None:
        for name, tensor in zip(op.inputs, operands, strict=True):
            if tensor is not None:
                self.run.disagreement = max(self.run.disagreement, disagreement(tensor))
                self.run.outputs[name] = whole(tensor)

    def _compare(self, item: PlannedCollective, message: Communication | None) -> None:
        if message is not None:
            self.run.sent.append(message)
        axes = tuple(sorted(self.axes[a] for a in item.axes))
        planned = Communication(item.kind, axes, round(item.nbytes))
        if message != planned:
            self.run.mismatches.append(
                Mismatch(
                    item.tensor,
                    item.operator,
                    self.text(planned),
                    self.text(message) if message else "",
                )
            )

    def compare_inside(self) -> None:
        """Hold what was sent inside operators, forward and backward, against the plan."""
        inside = _inside(self.plan.collectives)
        for op in self.plan.graph.ops:
            if op.name in self.run.not_run:
                continue
            sent = self.inside_log.get(op.name, [])
            self.run.sent += sent
            planned: Counter[Communication] = Counter()
            for item in inside.get(op.name, ()):
                axes = tuple(sorted(self.axes[a] for a in item.axes))
                planned[Communication(item.kind, axes, round(item.nbytes))] += item.count
            found = Counter(sent)
            for message in (planned - found) | (found - planned):
                texts = [
                    f"{count} x {self.text(message)}" if count else ""
                    for count in (planned[message], found[message])
                ]
                self.run.mismatches.append(Mismatch("", op.name, *texts))

    def text(self, message: Communication) -> str:
        """A message in words."""
        names = "*".join(self.plan.mesh[a][0] for a in message.axes)
        kind = message.kind.replace("_", "-")
        return f"{kind} over {names} of {message.nbytes:,} bytes"

    def _item_bytes(self, name: str) -> float:
        return dtype_bytes(self.plan.graph.tensors[name].dtype)

    def _axis(self, name: str) -> int:
        return -int(name[1:]) if name.startswith("/") else self.axes[name]

    def named_layout(self, named: NamedLayout | None) -> Layout:
        """A layout that the plan must name.

        Raises:
            NotRunError: it does not.
        """
        return self.layout(_known(named))

    def layout(self, named: NamedLayout) -> Layout:
        dims = tuple(tuple(self._axis(a) for a in dim) for dim in named.dims)
        return Layout(dims, tuple(sorted(self.axes[a] for a in named.partial)))


def _known(layout: NamedLayout | None) -> NamedLayout:
    if layout is None:
        raise NotRunError("the plan does not say through which layouts its tensors go")
    return layout


class Paths(dict[tuple[str, str, int], list[PlannedCollective]]):
    """Messages by tensor, reader and operand, in order."""

    repeated: frozenset[tuple[str, str, int]] = frozenset()
    """Those that are made twice: forward, and again for the backward pass."""


def paths_of(items: Iterable[PlannedCollective], causes: frozenset[str]) -> Paths:
    """Messages of some causes; a repeated gather once."""
    out = Paths()
    for item in items:
        if item.cause in causes and item.group_size > 1:
            # Which pass a gather belongs to, and what hides of it, is no part of the path.
            alike = replace(item, backward=0, hidden_s=0.0)
            out.setdefault((item.tensor, item.operator, item.operand), []).append(alike)
    repeated = []
    for key, path in out.items():
        half = len(path) // 2
        if path[:half] == path[half:]:
            out[key] = path[:half]
            repeated.append(key)
    out.repeated = frozenset(repeated)
    return out


def _inside(items: Iterable[PlannedCollective]) -> dict[str, list[PlannedCollective]]:
    out: dict[str, list[PlannedCollective]] = {}
    for item in items:
        if item.cause == Cause.INSIDE and item.group_size > 1:
            out.setdefault(item.operator, []).append(item)
    return out


def given_tensors(plan: Plan) -> list[str]:
    """Tensors whose numbers a run needs: whatever no operator makes."""
    every = [each for op in plan.graph.ops for each in (op, *op.parts)]
    made = {n for op in every for n in op.outputs}
    read = dict.fromkeys(n for op in every for n in op.inputs if n and n not in made)
    activation = [n for n in read if plan.graph.tensors[n].role is Role.ACTIVATION]
    if activation:
        raise ValueError(f"no operator makes {activation[0]!r}")
    return list(read)
