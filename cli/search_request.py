"""From checked text to what the planner is asked; imports the planner, so it is imported late."""

from __future__ import annotations

from collections.abc import Sequence

from cli import arguments, options
from costmodel.memory import Optimizer
from planner.dialects import TARGETS
from planner.preparation import dialect_of
from planner.pricing import COSTS
from planner.request import SearchRequest
from planner.solvers import SOLVERS
from topology.catalogue import named_cluster
from topology.cluster import Cluster


def search_request(  # noqa: PLR0913  one parameter per option
    *,
    phase: str,
    optimizer: str,
    dtype: str | None,
    batch: int | None,
    bind: Sequence[str],
    memory: str | None,
    dataset_strategy: str | None,
    target: str,
    solver: str,
    time_limit: float,
    effort: int,
    attention: str,
    all_to_all: bool,
    rules: tuple[tuple[str, str], ...],
    pins: Sequence[str],
    cost: str,
) -> SearchRequest:
    """The request in these options.

    Raises:
        UserError: one of them cannot be.
    """
    one_of = arguments.one_of
    if dtype is not None:
        one_of(dtype, options.DTYPES, "--dtype", "element type")
    return SearchRequest(
        training=one_of(phase, options.PHASES, "--phase", "phase") == "train",
        optimizer=Optimizer(
            one_of(optimizer, [o.value for o in Optimizer], "--optimizer", "optimizer")
        ),
        dtype=dtype,
        batch=None if batch is None else arguments.at_least_one(batch, "--batch"),
        memory_limit_bytes=arguments.memory_bytes(memory),
        dataset_strategy=arguments.dataset_strategy(dataset_strategy),
        target=one_of(target, TARGETS, "--target", "target"),
        solver=one_of(solver, SOLVERS, "--solver", "solver"),
        effort=arguments.at_least_one(effort, "--effort"),
        time_limit_s=arguments.time_limit_s(time_limit),
        fused_attention=one_of(attention, options.ATTENTION, "--attention", "form of attention")
        == "fused",
        all_to_all=all_to_all,
        bind=tuple(sorted(arguments.bindings(bind).items())),
        rules=rules,
        pins=arguments.pins(pins),
        cost=one_of(cost, COSTS, "--cost", "cost"),
    )


def machine(cluster: str, devices: int, request: SearchRequest) -> Cluster:
    """The cluster of this name, if the target runs on so many devices.

    Raises:
        RequestError: the target does not.
        ClusterError: the name is unknown, or the machine has no such part.
    """
    dialect_of(request.target, devices, all_to_all=request.all_to_all)
    return named_cluster(cluster, devices)
