"""`parallelize`: a torch module, run as a plan says."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from executors.dtensor.at_rest import lay_out
from executors.dtensor.numbers import torch_array
from executors.dtensor.pipelined import Pipelined
from executors.dtensor.stages import own_stages, stage_of
from executors.dtensor.tracing import Traced, traced
from executors.matching import Match, matched, whole_match
from executors.reference import given_tensors
from executors.torch_differences import ApplyError, differences, refuse
from ir.graph import Role
from ir.plan import Plan
from ir.plan_file import plan_to_json, read_plan


def parallelize(
    model: Any,
    plan: Plan | str | Path,
    example_inputs: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Callable[[Any, Any], Any] | None = None,
    whole_outputs: bool = True,
    report: bool = True,
) -> Any:
    """The model as a module that runs on all ranks of the job as a plan says.

    Parameters become DTensors, sharded as the plan has them at rest; a training loop stays as it
    is. Every rank passes the whole batch, or DTensors. The process group is started if none runs.
    With pipeline stages a rank keeps the parameters of its stages, a call runs both passes of all
    micro-batches, and its result is the mean loss.

    Args:
        model: a module, which is changed in place; the path of a `.pt2` file; or arrays by the
            names of the plan's graph, for a model without code.
        plan: the plan, or the path of its file.
        example_inputs: operands of a call with the batch of the plan (of one micro-batch).
        kwargs: the same by keyword.
        loss: of a result and a target, which then is the last operand of every call; for pipelines
            whose model hands out something else than its loss.
        whole_outputs: results are whole tensors on every rank; else DTensors as the plan has them.
        report: rank 0 prints what is done otherwise than planned, to stderr.

    Raises:
        MismatchError: the model is not the one that was planned.
        ApplyError: torch cannot run the plan, or the job has another number of ranks.
    """
    whole = plan if isinstance(plan, Plan) else read_plan(Path(plan), staged=True)
    _join(whole)
    if isinstance(model, Mapping):
        found, match = own_graph(whole, model), whole_match(whole)
    else:
        found = traced(model, example_inputs, kwargs or {})
        match = matched(whole, found.graph)
    module = applied(found, match, whole_outputs=whole_outputs, loss=loss)
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
    _agreed(plan)


def _agreed(plan: Plan) -> None:
    """Raise `ApplyError` on every rank where they have different plans or versions of torch."""
    own = hashlib.sha256(plan_to_json(plan).encode()).hexdigest(), str(torch.__version__)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    plans, versions = zip(*every, strict=True)
    for what, found in (("plan", plans), ("version of torch", versions)):
        other = next((rank for rank, each in enumerate(found) if each != found[0]), None)
        if other is not None:
            texts = f": {found[0]} and {found[other]}" if found is versions else ""
            raise ApplyError(
                f"ranks 0 and {other} have not the same {what}{texts}\n  at:  the job\n"
                "  fix: give all ranks the same plan file and the same environment"
            )


def _environment(name: str, default: str) -> str:
    import os  # noqa: PLC0415

    return os.environ.get(name, default)  # noqa: TID251  set by torchrun


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
    found: Traced,
    match: Match,
    *,
    whole_outputs: bool,
    losses: bool = False,
    loss: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """The module of a matched model as this rank runs it.

    Args:
        found: the model.
        match: it and the plan.
        whole_outputs: results are whole tensors.
        losses: the plan's own losses are the results.
        loss: of a result and the last operand of a call, where the model itself has no loss.
    """
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    found.module.to(device)
    stages = [
        stage_of(match, number, _constants(found, match, device), device)
        for number in own_stages(match.plan)
    ]
    elsewhere = [
        name for n, name in match.names.items()
        if match.plan.graph.tensors[n].role is Role.PARAMETER
    ]  # fmt: skip
    lay_out(found.module, [each.kept for each in stages], elsewhere)
    own = {theirs: n for n, theirs in match.names.items()}
    inputs = [own.get(name, "") for name in found.inputs]
    running = [
        each.running(inputs, found.out_spec, whole_outputs=whole_outputs, losses=losses)
        for each in stages
    ]
    if len(match.plan.pipeline.stages) > 1:
        pipelined = Pipelined.of(match.plan, stages, running, inputs, device)
        return installed(found.module, pipelined, None, loss)
    return installed(found.module, running[0], found.in_spec, loss)


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


_NOT_COMPILED = (
    "a module of `parallelize` replays the two graphs that its first call recorded, with the "
    "collectives of the plan; torch.compile leaves it as it is"
)


def installed(
    module: Any, running: Any, in_spec: Any, loss: Callable[[Any, Any], Any] | None = None
) -> Any:
    """The module with another forward pass, of a class of its own that derives from its class."""

    def forward(self: Any, *operands: Any, **kwargs: Any) -> Any:
        target: tuple[Any, ...] = ()
        if loss is not None:
            *operands, last = operands  # type: ignore[assignment]
            target = (last,)
        flat, spec = pytree.tree_flatten((tuple(operands), kwargs))
        if in_spec is not None and spec != in_spec:
            raise TypeError(f"the module was planned for a call with {in_spec}, not with {spec}")
        if isinstance(running, Pipelined):
            return running(self, flat, loss, target)
        found = running(self, flat)
        return found if loss is None else loss(found, *target)

    base = type(module)
    apart = torch.compiler.disable(forward, reason=_NOT_COMPILED)
    own = {"forward": apart, "planned": running}
    module.__class__ = type(f"Planned{base.__name__}", (base,), own)
    return module
