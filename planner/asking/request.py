"""From checked text to what the planner is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from costmodel.memory import Optimizer
from planner.asking import texts
from planner.asking.decisions import NOTHING_DECIDED, Decisions
from planner.asking.errors import UserError
from planner.dialects import TARGETS
from planner.pricing import COSTS
from planner.recursive_programming import NAME as RECURSIVE
from planner.request import SearchRequest
from planner.solvers import SOLVERS


def search_request(  # noqa: PLR0913  one parameter per option
    *,
    phase: str,
    optimizer: str,
    dtype: str | None,
    batch: int | None,
    global_batch: int | None = None,
    micro_batch: str = "auto",
    pipeline: str = "auto",
    decisions: Decisions | None = None,
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
    one_of = texts.one_of
    if dtype is not None:
        one_of(dtype, texts.DTYPES, "--dtype", "element type")
    return SearchRequest(
        training=one_of(phase, texts.PHASES, "--phase", "phase") == "train",
        optimizer=Optimizer(
            one_of(optimizer, [o.value for o in Optimizer], "--optimizer", "optimizer")
        ),
        dtype=dtype,
        batch=None if batch is None else texts.at_least_one(batch, "--batch"),
        **_whole(batch, global_batch, micro_batch, pipeline),
        **(decisions or NOTHING_DECIDED),
        memory_limit_bytes=texts.memory_bytes(memory),
        dataset_strategy=texts.dataset_strategy(dataset_strategy),
        target=one_of(target, TARGETS, "--target", "target"),
        solver=_solver(solver, global_batch),
        effort=texts.at_least_one(effort, "--effort"),
        time_limit_s=texts.time_limit_s(time_limit),
        fused_attention=one_of(attention, texts.ATTENTION, "--attention", "form of attention")
        == "fused",
        all_to_all=all_to_all,
        bind=tuple(sorted(texts.bindings(bind).items())),
        rules=rules,
        pins=texts.pins(pins),
        cost=one_of(cost, COSTS, "--cost", "cost"),
    )


def _solver(name: str, global_batch: int | None) -> str:
    if name == RECURSIVE and global_batch is not None:
        what, fix = f"{RECURSIVE} plans without stages", "give --batch in place of --global-batch"
        raise UserError(what, f"--solver {RECURSIVE}", fix)
    return texts.one_of(name, (*SOLVERS, RECURSIVE), "--solver", "solver")


class _Whole(TypedDict):
    global_batch: int | None
    micro_batch: str
    pipeline: str


def _whole(batch: int | None, global_batch: int | None, micro_batch: str, pipeline: str) -> _Whole:
    """How a step may be cut."""
    for name, value, words in (("--micro-batch", micro_batch, ("auto",)),
                               ("--pipeline", pipeline, ("auto", "off"))):  # fmt: skip
        if value not in words and not texts.is_count(value):
            known = " or ".join((*words, "a number of 1 or more"))
            raise UserError(f"{value!r} is none of them", f"{name} {value}", f"use {known}")
        if value != "auto" and global_batch is None:
            raise UserError(
                "it cuts a global batch, and there is none", f"{name} {value}",
                f"--global-batch {batch or 'N'}" + (" in place of --batch" if batch else ""),
            )  # fmt: skip
    if global_batch is None:
        return _Whole(global_batch=None, micro_batch="auto", pipeline="auto")
    if batch is not None:
        raise UserError(
            "a global batch is a batch that may be cut into micro-batches: one of the two is too "
            "many", f"--batch {batch} --global-batch {global_batch}", "leave --batch out",
        )  # fmt: skip
    texts.at_least_one(global_batch, "--global-batch")
    return _Whole(global_batch=global_batch, micro_batch=micro_batch, pipeline=pipeline)
