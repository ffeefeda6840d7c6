"""Plans run and measured on processes of this machine: right losses, and no process left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from executors.dtensor.processes import ProcessError, run_measured, spawn
from executors.measured import message_rows
from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.request import SearchRequest
from planner.requests.constants import fixed_numbers
from tests.executors.drawn_plans import drawn_plan
from tests.judges import dtensor_nets as nets
from tests.judges.schemes import DATA, SHARDED, STATES, TENSOR, plans
from tests.judges.test_parallelize import graph_of, pipelined
from tests.planner.requests.test_constants import config_file, plan_of

TRAINING = SearchRequest(target="torch", training=True)


@pytest.fixture(scope="module")
def planned() -> dict[str, Plan]:
    graph = nets.transformer(4, 8, 32, 16, 4, 32)
    return plans(graph, 2, TRAINING, wanted=[DATA, TENSOR, SHARDED, STATES])


@pytest.mark.parametrize("scheme", [DATA, TENSOR, SHARDED])
def test_the_loss_is_that_of_one_device(planned: dict[str, Plan], scheme: str) -> None:
    found = run_measured(planned[scheme], steps=3, seed=1, timeout_s=1200.0)
    assert found.loss_alone is not None
    assert found.is_right, (found.loss, found.loss_alone)
    assert len(found.steps_s) == 3
    assert found.processes == 2


@pytest.mark.parametrize("scheme", [DATA, TENSOR, SHARDED, STATES])
def test_jax_has_the_loss_of_one_device_too(planned: dict[str, Plan], scheme: str) -> None:
    found = run_measured(planned[scheme], steps=3, seed=1, timeout_s=1200.0, backend="jax")
    assert found.loss_alone is not None
    assert found.is_right, (found.loss, found.loss_alone)
    assert len(found.steps_s) == 3
    assert found.classes_s["products"] > 0.0
    rows = {row[0]: (row[1], row[3]) for row in message_rows(planned[scheme], found)}
    for kind, (count, seen) in rows.items():  # XLA joins messages, and adds small ones of its own
        assert seen > 0 or count == 0 or kind == "reduce_scatter", (kind, rows)


def test_messages_are_counted_by_the_profiler(planned: dict[str, Plan]) -> None:
    found = run_measured(planned[DATA], steps=2, seed=0, timeout_s=1200.0)
    rows = {kind: (count, seen) for kind, count, _, seen, _ in message_rows(planned[DATA], found)}
    count, seen = rows["all_reduce"]
    assert 0 < seen < count  # gradients travel in buckets


@pytest.mark.parametrize("chosen", [{}, {"interleave": "2"}, {"devices": 4}])
def test_stages_have_the_loss_of_one_device_and_send_what_is_planned(
    tmp_path: Path, chosen: dict[str, Any]
) -> None:
    plan = pipelined("gpt with loss", tmp_path, **chosen)
    assert plan.pipeline.micro_batches == 4
    found = run_measured(plan, steps=2, seed=0, timeout_s=1200.0)
    assert found.loss_alone is not None
    assert found.is_right, (found.loss, found.loss_alone)
    assert 0.0 < found.idle_s < found.median_s
    seen = {kind: (planned, count) for kind, planned, _, count, _ in message_rows(plan, found)}
    planned, count = seen["point_to_point"]
    shared = sum(1 for each in plan.pipeline.shared if len({s % 2 for s in each.stages}) > 1)
    assert count == planned - shared > 0  # sums of what stages share are all-reduces of torch


def test_a_rank_that_dies_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"the process of rank \d ended with status 1"):
        spawn("executors.dtensor.measure", tmp_path, 2, 60.0)  # there is no plan


def test_an_interrupt_leaves_no_process(planned: dict[str, Plan], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_to_json(planned[DATA]))
    command = [sys.executable, "-m", "parallel_planner", "cli", "run", str(tmp_path / "plan.json")]
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # else it may be ignored
    job = subprocess.Popen([*command, "--steps", "10000"], stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, outside)
    started = _children(job.pid, wait_s=60.0)
    assert started
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=600)
    assert job.returncode != 0
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def _children(pid: int, wait_s: float) -> list[int]:
    """Processes that another started, two of them or as many as there are in the end."""
    end_s = time.monotonic() + wait_s
    found: list[int] = []
    while len(found) < 2 and time.monotonic() < end_s:
        time.sleep(0.2)
        found = [int(p) for p in os.listdir("/proc") if p.isdigit() and _parent(int(p)) == pid]  # noqa: PTH208
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_loss_whose_classes_are_split_is_that_of_one_device(tmp_path: Path) -> None:
    graph = graph_of("gpt with loss", tmp_path)
    drawn = (drawn_plan(graph, 2, TRAINING, seed) for seed in range(40))
    found = run_measured(next(p for p in drawn if _splits_classes(p)), 1, 0, timeout_s=1200.0)
    assert found.loss_alone is not None
    assert found.is_right, (found.loss, found.loss_alone)


def _splits_classes(plan: Plan) -> bool:
    losses = (o for o in plan.operators if o.kind == "SoftmaxCrossEntropyLoss")
    return any(o.inputs[0] is not None and bool(o.inputs[0].dims[1]) for o in losses)


def test_constants_of_the_model_give_a_finite_loss(tmp_path: Path) -> None:
    model = config_file(tmp_path)
    plan = plan_of(model)
    fixed, _ = fixed_numbers(plan, model)
    found = run_measured(plan, 1, 0, timeout_s=1200.0, fixed=fixed)
    assert found.loss_alone is not None
    assert found.is_right
    assert abs(found.loss - math.log(64)) < 1.0  # of a model that knows nothing yet
