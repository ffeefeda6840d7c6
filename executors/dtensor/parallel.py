"""`parallelize`: a torch module, run as a plan says."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from executors.dtensor.counts import inner_constants
from executors.dtensor.grid import grid_of
from executors.dtensor.late import LateSync
from executors.dtensor.local_step import LocalStep
from executors.dtensor.module import Running, given_parts, late_of, lay_out
from executors.dtensor.numbers import torch_array
from executors.dtensor.tracing import Traced, traced
from executors.matching import Match, matched, one_stage
from executors.reference import given_tensors, mesh_of
from executors.syncs import late_syncs
from executors.torch_differences import ApplyError, differences, refuse
from ir.graph import Role
from ir.layout import Layout
from ir.plan import Plan
from ir.plan_file import read_plan


def parallelize(
    model: Any,
    plan: Plan | str | Path,
    example_inputs: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    whole_outputs: bool = True,
    report: bool = True,
) -> Any:
    """The model as a module that runs on all ranks of the job as a plan says.

    Parameters become DTensors, sharded as the plan has them at rest; a training loop stays as it
    is. Every rank passes the whole batch, or DTensors. The process group is started if none runs.

    Args:
        model: a module, which is changed in place; the path of a `.pt2` file; or arrays by the
            names of the plan's graph, for a model without code.
        plan: the plan, or the path of its file.
        example_inputs: operands of a call with the batch of the plan (of one micro-batch).
        kwargs: the same by keyword.
        whole_outputs: results are whole tensors on every rank; else DTensors as the plan has them.
        report: rank 0 prints what is done otherwise than planned, to stderr.

    Raises:
        MismatchError: the model is not the one that was planned.
        ApplyError: torch cannot run the plan, or the job has another number of ranks.
    """
    whole = plan if isinstance(plan, Plan) else read_plan(Path(plan), staged=True)
    _join(whole)
    own = one_stage(whole)
    if isinstance(model, Mapping):
        found, match = own_graph(own, model), Match(own, {n: n for n in own.graph.tensors})
    else:
        found = traced(model, example_inputs, kwargs or {})
        match = matched(own, found.graph)
    module = applied(found, match, whole, whole_outputs=whole_outputs)
    if report and dist.get_rank() == 0:
        for line in (*match.notes, *differences(whole), *_unordered(module)):
            print(f"plan: {line}", file=sys.stderr)  # noqa: T201
    return module


def _unordered(module: Any) -> Iterator[str]:
    names = module.planned.unordered()
    if names:
        yield (
            f"{len(names)} parameters, such as {names[0]!r}, are split over mesh axes in an order "
            "that a DTensor parameter forgets: full_tensor() and checkpoints mix their pieces"
        )


def _join(plan: Plan) -> None:
    """Start the process group if none runs, and hold its size against the plan's."""
    refuse(plan)
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(_environment("LOCAL_RANK", "0")))
        dist.init_process_group()
    if dist.get_world_size() != plan.devices:
        raise ApplyError(
            f"the plan is for {plan.devices} devices, the job has {dist.get_world_size()} ranks\n"
            f"  at:  torchrun --nproc-per-node\n  fix: start {plan.devices} ranks, or plan for "
            f"{dist.get_world_size()} devices"
        )


def _environment(name: str, default: str) -> str:
    import os  # noqa: PLC0415

    return os.environ.get(name, default)  # noqa: TID251  set by torchrun


def local_step(plan: Plan, device: str) -> LocalStep:
    """The step of this rank, of a plan of one stage, on `cpu` or `cuda`."""
    grid = grid_of(plan, mesh_of(plan), dist.get_rank(), device)
    trains = bool(plan.request.get("training", True))
    return LocalStep(plan, grid, trains)


def own_graph(plan: Plan, arrays: Mapping[str, Any]) -> Traced:
    """The graph of a plan as a module, for a model without code: its parameters are arrays."""
    module = torch.nn.Module()
    for tensor in plan.graph.parameters:
        value = as_tensor(arrays[tensor.name])
        order = tensor.stored_permutation
        filed = value.permute([order.index(i) for i in range(len(order))]) if order else value
        owner, (*path, last) = module, (tensor.source or tensor.name).split(".")
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        owner.register_parameter(last, torch.nn.Parameter(filed, tensor.is_float))
    return Traced(module, plan.graph, plan.graph.inputs, arrays, None, None)


def applied(
    found: Traced, match: Match, whole: Plan, *, whole_outputs: bool, losses: bool = False
) -> Any:
    """The module of a matched model as this rank runs it.

    Args:
        found: the model.
        match: it and what a plan does with a micro-batch.
        whole: the plan.
        whole_outputs: results are whole tensors.
        losses: the plan's own losses are the results.
    """
    plan, module = match.plan, found.module
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    module.to(device)
    constants = _constants(found, match, device)
    step = local_step(plan, device)
    table = plan.graph.tensors
    parameters = {
        n: table[n].source or found_name
        for n, found_name in match.names.items()
        if table[n].role is Role.PARAMETER
    }
    syncs = {n: s for n, s in late_syncs(whole).items() if n in parameters}
    late = late_of(step, syncs, whole.pipeline.micro_batches)
    _check_tied(parameters, late.syncs)
    lay_out(module, step, parameters, late.syncs)
    own = {theirs: n for n, theirs in match.names.items() if table[n].role is Role.INPUT}
    inputs = [own.get(name, "") for name in found.inputs]
    fixed = given_parts(step, constants)
    inner = inner_constants(plan, constants)
    results = found.out_spec, whole_outputs, losses
    running = Running(step, parameters, inputs, late, fixed, inner, *results)
    return installed(module, running, found.in_spec)


def _check_tied(parameters: Mapping[str, str], late: Mapping[str, LateSync]) -> None:
    """Raise `ApplyError` where uses of one parameter want its optimizer's state in two places."""
    rests: dict[str, set[Layout | None]] = {}
    for planned, name in parameters.items():
        rests.setdefault(name, set()).add(late[planned].rest if planned in late else None)
    for name, found in rests.items():
        if len(found) > 1:
            raise ApplyError(
                f"parameter {name!r} is used twice, and its state rests in two layouts\n"
                "  at:  plan.json: tensors\n  fix: search with --zero 0 or --zero 3"
            )


def as_tensor(array: Any) -> Any:
    """A tensor of an array, or what is one."""
    return array if isinstance(array, torch.Tensor) else torch_array(array)


def _constants(found: Traced, match: Match, device: str) -> dict[str, Any]:
    buffers = {n: b.detach() for n, b in found.module.named_buffers()}
    table = match.plan.graph.tensors
    out: dict[str, Any] = {}
    for name in given_tensors(match.plan):
        theirs = match.names.get(name, name)
        if table[name].role in {Role.CONSTANT, Role.BUFFER}:
            if theirs not in buffers and theirs not in found.constants:
                raise ApplyError(
                    f"the numbers of constant {name!r} are not known\n  at:  the traced model\n"
                    "  fix: make it a buffer of the module"
                )
            array = found.constants.get(theirs)
            tensor = buffers[theirs] if theirs in buffers or array is None else as_tensor(array)
            out[name] = tensor.to(device)
    return out


def installed(module: Any, running: Running, in_spec: Any) -> Any:
    """The module with another forward pass, of a class of its own that derives from its class."""

    def forward(self: Any, *operands: Any, **kwargs: Any) -> Any:
        flat, spec = pytree.tree_flatten((operands, kwargs))
        if in_spec is not None and spec != in_spec:
            raise TypeError(f"the module was planned for a call with {in_spec}, not with {spec}")
        return running(self, flat)

    base = type(module)
    own = {"forward": forward, "planned": running}
    module.__class__ = type(f"Planned{base.__name__}", (base,), own)
    return module
