"""A measured run beside its plan, and a measured machine as a file that plans are made for."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace

import pytest

from cli.calibrate_host import machine_of
from cli.run_text import run_parts
from cli.text import tell
from costmodel.training.dataset import read_entries, read_table
from executors.host import HostFacts
from executors.measured import (
    Measured,
    message_rows,
    rows_of,
    slowdowns,
    to_json,
    validation_row,
)
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.loading import load_machine

pytestmark = pytest.mark.fast

RUN = Measured(
    steps_s=(0.5, 0.1, 0.2, 0.3, 0.4), computation_s=0.2, update_s=0.05, waiting_s=0.05,
    classes_s={"products": 0.15, "messages": 0.05}, messages={"all_reduce": (4, 0.04)},
    memory_bytes=2.0**20, loss=3.0, loss_alone=3.0, processes=2,
    machine={"device": "x86_64", "torch": "2.13.0", "backend": "gloo"},
)  # fmt: skip


def host(rate: float, link: float, latency_s: float) -> HostFacts:
    """A machine that does what a formula says."""
    shapes = [(64, 256, 256), (512, 1024, 1024), (2048, 1024, 1024)]
    products = tuple(("float32", m, k, n, 2.0 * m * k * n / rate) for m, k, n in shapes)
    sizes = [2**n for n in range(12, 27, 2)]
    times = tuple(("all_gather", n, latency_s + 0.5 * n / link) for n in sizes)
    return HostFacts(2, products, ((3 * 2**24, 3 * 2**24 / 1e10),), 2e-6, times, 2.0**34, {})


@pytest.fixture(scope="module")
def plan() -> Plan:
    machine = named_cluster("atlas-800t-a2", 2)
    return search(mlp(2, 8, 16, 32), machine, SearchRequest(target="torch", training=True))


def test_causes_sum_to_the_step_on_the_side_of_the_plan(plan: Plan) -> None:
    *causes, step = rows_of(plan, RUN)
    assert sum(row.predicted for row in causes) == pytest.approx(step.predicted)
    assert step.measured == 0.3
    assert step.error == pytest.approx(step.predicted / 0.3 - 1.0)


def test_of_stages_the_bubble_and_what_they_send_are_a_cause_of_their_own() -> None:
    asked = SearchRequest(
        target="torch", global_batch=64, micro_batch="16", pipeline="2", interleave="1"
    )
    plan = search(mlp(4, 64, 16, 32), named_cluster("dgx-h100", 2), asked)
    *causes, step = rows_of(plan, replace(RUN, idle_s=0.1))
    assert sum(row.predicted for row in causes) == pytest.approx(step.predicted)
    (idle,) = (row for row in causes if row.cause == "other stages")
    assert idle.measured == 0.1
    assert 0.0 < plan.estimate.time_by_cause["pipeline bubble"] <= idle.predicted < step.predicted
    (sent,) = (row for row in message_rows(plan, RUN) if row[0] == "point_to_point")
    assert sent[1] == 2 * plan.pipeline.micro_batches


def test_a_loss_that_is_not_that_of_one_device_is_wrong() -> None:
    assert RUN.is_right
    assert not replace(RUN, loss=3.01).is_right
    assert replace(RUN, loss_alone=None).is_right
    assert RUN.spread_s == (0.1, 0.5)


def test_slowdowns_are_measured_over_predicted(plan: Plan) -> None:
    computation, messages = slowdowns(plan, RUN)
    assert computation == pytest.approx(RUN.computation_s / rows_of(plan, RUN)[0].predicted)
    assert messages > 0
    assert slowdowns(plan, replace(RUN, computation_s=0.0, messages={})) == (1.0, 1.0)


def test_messages_of_plan_and_run_stand_side_by_side(plan: Plan) -> None:
    kinds = {row[0] for row in message_rows(plan, RUN)}
    assert kinds == {"all_reduce"} | {c.kind for c in plan.collectives if c.group_size > 1}


def test_the_record_reads_back(plan: Plan) -> None:
    record = json.loads(to_json(plan, RUN))
    assert record["predicted"]["step_time_s"] == plan.estimate.step_time_s
    assert Measured.from_record(json.loads(json.dumps(asdict(RUN)))) == RUN


def test_the_row_is_one_that_validate_reads(plan: Plan) -> None:
    (row,) = csv.DictReader(io.StringIO(validation_row(plan, RUN)))
    assert float(row["measured_step_time_s"]) == pytest.approx(0.3)
    table = read_table(validation_row(plan, RUN), "measured.csv")
    assert len(read_entries(table)) == 1


def test_a_person_reads_predicted_and_measured(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(run_parts(plan, replace(RUN, loss=4.0), ("one thing",), ()))
    said = capsys.readouterr().out
    assert "NOT that of one device" in said
    assert "- one thing" in said
    assert "300 ms median, 100 ms to 500 ms" in said


def test_a_measured_machine_has_the_rates_that_were_measured() -> None:
    text, fit = machine_of(host(rate=1e11, link=2e9, latency_s=50e-6))
    cluster = load_machine(text, "host.yaml").cluster(2)
    assert cluster.chip.peak_flops["float32"] == pytest.approx(1e11, rel=1e-4)
    assert cluster.chip.memory_bandwidth_bytes_per_s == pytest.approx(1e10, rel=1e-4)
    assert fit is not None
    assert max(abs(float(error)) for error in fit.errors) < 0.05


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_machine_hides_as_much_of_a_message_as_was_measured(share: float) -> None:
    facts = replace(host(1e11, 1e9, 50e-6), overlap=share)
    assert HostFacts.from_record(json.loads(json.dumps(asdict(facts)))) == facts
    text, _ = machine_of(facts)
    assert load_machine(text, "host.yaml").cluster(2).chip.overlap == share


def test_a_single_process_has_no_link() -> None:
    text, fit = machine_of(replace(host(1e11, 1e9, 50e-6), processes=1, messages=()))
    assert fit is None
    assert load_machine(text, "host.yaml").cluster(1).devices == 1


def test_a_faster_link_is_found_faster() -> None:
    fits = [machine_of(host(1e11, link, 50e-6))[1] for link in (1e9, 4e9)]
    rates = [fit.cluster.tiers[-1].bandwidth_bytes_per_s for fit in fits if fit is not None]
    assert rates[1] == pytest.approx(4 * rates[0], rel=0.05)
