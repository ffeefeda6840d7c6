"""`parallelize`: a JAX function, run as a plan says."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jax

from executors.jax_refusals import refuse
from executors.matching import matched, one_stage
from executors.reference import given_tensors
from executors.syncs import Sync, late_syncs
from executors.xla.devices import devices
from executors.xla.pins import Pins, mesh_of
from executors.xla.program import Program, known_numbers
from executors.xla.program import results as results_of
from importers.jax_names import HEAD
from importers.jax_trace import traced
from importers.model_file import model_format
from ir.graph import OpGraph, Role, Tensor
from ir.plan import NamedLayout, Plan
from ir.plan_file import read_plan

Ways: TypeAlias = tuple[Sequence[NamedLayout], Sequence[NamedLayout]]
"""Of a tensor from rest to use, and of its gradient back."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What an argument is to the plan."""

    place: int
    """Among all leaves of the arguments."""
    tensor: Tensor
    rest: NamedLayout
    """Between calls, with dimensions as the plan has them."""
    ways: Ways
    """Layouts from rest to use, and of the gradient back."""

    def inside(self, array: Any) -> Any:
        """The plan's tensor of the argument."""
        order = self.tensor.stored_permutation
        return jax.numpy.transpose(array, order) if order else array

    def filed(self) -> NamedLayout:
        """The layout at rest with dimensions as the argument has them."""
        order = self.tensor.stored_permutation
        dims = self.rest.dims
        return (
            NamedLayout(tuple(dims[order.index(i)] for i in range(len(dims))))
            if order
            else self.rest
        )


@dataclass(frozen=True, slots=True)
class Parallel:
    """A function of the same arguments and results, which JAX splits as planned. It goes into
    `jax.jit`, `jax.grad` and whatever else takes a function.
    """

    program: Program
    leaves: Mapping[str, _Leaf]
    """By tensor of the plan."""
    in_tree: Any
    out_tree: Any
    pins: Pins

    def __call__(self, *arguments: Any) -> Any:
        flat, tree = jax.tree_util.tree_flatten(arguments)
        if tree != self.in_tree:
            raise TypeError(f"the function was planned for arguments {self.in_tree}, not {tree}")
        given = {
            name: self.pins.along(leaf.inside(flat[leaf.place]), *leaf.ways)
            for name, leaf in self.leaves.items()
        }
        return jax.tree_util.tree_unflatten(self.out_tree, self._run(given))

    def _run(self, given: Mapping[str, Any]) -> list[Any]:
        if not self.program.plan.recomputed:
            return results_of(self.program, given)
        policy = jax.checkpoint_policies.save_only_these_names(*self.program.kept)
        again = jax.checkpoint(lambda each: results_of(self.program, each), policy=policy)
        found: list[Any] = again(dict(given))
        return found

    @property
    def shardings(self) -> tuple[Any, ...]:
        """For every argument the shardings of its leaves, as `jax.jit(in_shardings=...)` and
        `jax.device_put` take them.
        """
        count = self.in_tree.num_leaves
        own = {leaf.place: self.pins.sharding(leaf.filed()) for leaf in self.leaves.values()}
        whole = self.pins.whole(0)
        found: tuple[Any, ...] = jax.tree_util.tree_unflatten(
            self.in_tree, [own.get(place, whole) for place in range(count)]
        )
        return found

    def place(self, *arguments: Any) -> Any:
        """Arguments on the devices of the plan: one alone, or a tuple of the first ones."""
        found = tuple(
            jax.device_put(each, sharding)
            for each, sharding in zip(arguments, self.shardings, strict=False)
        )
        return found[0] if len(found) == 1 else found


def parallelize(
    function: Callable[..., Any],
    plan: Plan | str | Path,
    arguments: Sequence[Any],
    parameters: Sequence[int] = (0,),
) -> Parallel:
    """The function as JAX runs it on the devices of a plan.

    Args:
        function: of trees of arrays: a model, or its loss.
        plan: the plan, or the path of its file.
        arguments: of one call, arrays or `jax.ShapeDtypeStruct`, at the batch of the plan.
        parameters: places of those arguments that are parameters.

    Raises:
        MismatchError: the function computes something else than what was planned.
        JaxPlanError: JAX cannot run the plan.
    """
    whole = plan if isinstance(plan, Plan) else read_plan(Path(plan), staged=True)
    refuse(whole)
    graph, names, numbers = _read(function, arguments, parameters)
    match = matched(whole, graph)
    own = one_stage(match.plan)
    pins = Pins(mesh_of(own, devices(own.devices)))
    theirs = {n: match.names[n] for n in given_tensors(own) if n in match.names}
    known = {n: numbers[t] for n, t in theirs.items() if t in numbers}
    constants = known_numbers(own.graph, known, double=False)
    training = bool(own.request.get("training", True))
    program = Program(own, pins, training, constants)
    places = {name: place for place, name in enumerate(names)}
    syncs = late_syncs(match.plan)
    leaves = {
        n: _leaf(own, n, places[t], syncs.get(n)) for n, t in theirs.items() if n not in constants
    }
    in_tree = jax.tree_util.tree_structure(tuple(arguments))
    out_tree = jax.tree_util.tree_structure(jax.eval_shape(function, *arguments))
    return Parallel(program, leaves, in_tree, out_tree, pins)


def _read(
    function: Callable[..., Any], arguments: Sequence[Any], parameters: Sequence[int]
) -> tuple[OpGraph, list[str], Mapping[str, Any]]:
    """The graph of a function as the importer reads it, the names of its leaves in order, and
    numbers of its constants.
    """
    text = traced(function, arguments, parameters)
    head = text.splitlines()[0].removeprefix(HEAD)
    names = [str(each["name"]) for each in json.loads(head)["arguments"]]
    with tempfile.TemporaryDirectory(prefix="planner") as folder:
        path = Path(folder) / "model.mlir"
        path.write_text(text)
        form = model_format(path)
        graph = form.graph(path, {})
        fixed = [n for n, t in graph.tensors.items() if t.role in {Role.CONSTANT, Role.BUFFER}]
        return graph, names, form.numbers(path, fixed, {})


def _leaf(plan: Plan, name: str, place: int, sync: Sync | None) -> _Leaf:
    rest, ways = rest_of(plan, name, sync)
    return _Leaf(place, plan.graph.tensors[name], rest, ways)


def rest_of(plan: Plan, name: str, sync: Sync | None) -> tuple[NamedLayout, Ways]:
    """The layout of a given tensor between calls, those from there to its use, and those of its
    gradient on the way back.
    """
    tensor = plan.graph.tensors[name]
    planned = next((t for t in plan.tensors if t.name == name and t.role != "shared"), None)
    used = planned.layout if planned else NamedLayout(((),) * len(tensor.dims))
    rest = sync.rest if sync is not None else used
    if planned is None or planned.role != "parameter":
        return rest, ([rest], [])
    there = [rest, *_ends(sync.gather), used] if sync is not None else [rest]
    back = [NamedLayout(used.dims), rest] if sync is not None else [rest]
    return rest, (there, back)


def _ends(path: Sequence[Any]) -> Iterator[NamedLayout]:
    for item in path:
        yield from (x for x in (item.before, item.after) if x is not None)
