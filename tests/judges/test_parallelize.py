"""Modules of ordinary code, trained on two processes as planned."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from executors.backward import GATHER
from executors.judgement import predicted_traffic
from executors.matching import MismatchError, matched, one_stage
from executors.syncs import late_syncs
from importers.model_file import import_model_file
from ir.ops import FUSED
from ir.plan import Plan
from ir.plan_file import plan_to_json
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from tests.judges.schemes import DATA, SEARCHED, SHARDED, STATES, TENSOR, TWO_D, plans
from tests.judges.training_nets import case_of
from topology.catalogue import named_cluster

NETS = (
    "perceptron", "gpt", "gpt with loss", "llama", "images", "vision", "experts", "u-net",
)  # fmt: skip
SCHEMES = (DATA, TENSOR, SHARDED, STATES, SEARCHED)
TRAINING = SearchRequest(target="torch", training=True)
Case = tuple[str, str]


def graph_of(net: str, folder: Path) -> Any:
    model, operands, _ = case_of(net)
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(model, operands), path)
    return import_model_file(path)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Plan]:
    folder = tmp_path_factory.mktemp("graphs")
    found = {
        (net, scheme): plan
        for net in NETS
        for scheme, plan in plans(graph_of(net, folder), 2, TRAINING, wanted=SCHEMES).items()
    }
    plain = found["perceptron", DATA]
    made = tuple(n for op in plain.graph.ops[:-1] for n in op.outputs if n)
    found["perceptron", "compiled"] = found["perceptron", "evaluated"] = plain
    found["perceptron", "recomputed"] = replace(plain, recomputed=made)
    return found | staged(folder)


def staged(folder: Path) -> dict[Case, Plan]:
    """Two micro-batches, with every ZeRO stage."""
    net, machine = "gpt with loss", named_cluster("dgx-h100", 2)
    graph = graph_of(net, folder)
    asked = SearchRequest(
        target="torch", global_batch=8, micro_batch="4", degrees=(("dp", 2),), pipeline="off"
    )
    return {
        (net, f"ZeRO {zero}"): search(graph, machine, replace(asked, zero=str(zero)))
        for zero in range(4)
    }


@pytest.fixture(scope="module")
def trained(
    planned: dict[Case, Plan], tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, dict[str, Any]]:
    """What rank 0 of two saw of every case, all of them in the same two processes."""
    return trained_on(2, planned, tmp_path_factory.mktemp("trained"))


def trained_on(
    size: int, planned: dict[Case, Plan], folder: Path, optimizer: str = "adamw"
) -> dict[Case, dict[str, Any]]:
    cases = []
    for number, ((net, scheme), plan) in enumerate(planned.items()):
        (folder / f"{number}.json").write_text(plan_to_json(plan))
        times, stages = plan.pipeline.micro_batches, len(plan.pipeline.stages)
        file = f"{number}.json"
        case = {"net": net, "plan": file, "micro_batches": times, "stages": stages}
        flags = {flag: scheme == flag for flag in ("compiled", "evaluated")}
        cases.append({**case, **flags, "optimizer": optimizer})
    (folder / "cases.json").write_text(json.dumps(cases))
    script = Path(__file__).parent / "training_nets.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", str(size), str(script), str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-9000:]
    found = json.loads((folder / "found.json").read_text())
    return dict(zip(planned, found, strict=True))


def test_two_axes_on_four_processes_train_alike(tmp_path: Path) -> None:
    net = "gpt with loss"
    found = plans(graph_of(net, tmp_path), 4, TRAINING, wanted=[TWO_D, SHARDED])
    cases = {(net, scheme): plan for scheme, plan in found.items()}
    for case, seen in trained_on(4, cases, tmp_path).items():
        assert seen["losses"] == pytest.approx(seen["alone"], rel=1e-4), case
        assert max(seen["errors"].values()) < 1e-4, case


def test_states_that_need_several_messages_or_none_train_alike(tmp_path: Path) -> None:
    """Of plans with ZeRO 1 drawn at random: slices, and reductions over one axis after another."""
    net = "perceptron"
    graph = graph_of(net, tmp_path)
    drawn = {
        (net, f"drawn {seed}"): drawn_plan(graph, 4, TRAINING, seed, zero="1") for seed in range(6)
    }
    assert any(not s.reduce for plan in drawn.values() for s in late_syncs(plan).values())
    for case, seen in trained_on(4, drawn, tmp_path).items():
        assert seen["losses"] == pytest.approx(seen["alone"], rel=1e-4), case
        assert all(error < 1e-4 for error in seen["errors"].values()), case


STAGED = ("gpt with loss", "llama", "vision", "images", "u-net")


def pipelined(net: str, folder: Path, devices: int = 2, **changed: Any) -> Plan:
    asked = SearchRequest(
        target="torch", global_batch=8, micro_batch="2", pipeline="2", interleave="1"
    )
    machine = named_cluster("dgx-h100", devices)
    return search(graph_of(net, folder), machine, replace(asked, **changed))


def test_stages_of_a_pipeline_train_alike(tmp_path: Path) -> None:
    cases = {(net, "1f1b"): pipelined(net, tmp_path) for net in STAGED}
    cases["gpt with loss", "interleaved"] = pipelined("gpt with loss", tmp_path, interleave="2")
    assert cases["gpt with loss", "interleaved"].pipeline.chunks == 2
    plain = cases["gpt with loss", "evaluated"] = cases["gpt with loss", "1f1b"]
    gpipe = replace(plain.pipeline, schedule="gpipe")
    cases["gpt with loss", "gpipe"] = replace(plain, pipeline=gpipe)
    found = trained_on(2, cases, tmp_path)
    for case, seen in found.items():
        assert seen["losses"] == pytest.approx(seen["alone"], rel=1e-4), case
        assert max(seen["errors"].values()) < 1e-4, case
    for case in (("llama", "1f1b"), ("vision", "1f1b")):
        (send,) = cases[case].pipeline.sends
        expected = ["point_to_point", 2, send.nbytes * send.count, send.count]
        assert found[case]["sent"] == [expected], case


def test_stages_of_two_devices_train_alike(tmp_path: Path) -> None:
    net = "gpt with loss"
    cases = {
        (net, f"ZeRO {zero}"): pipelined(net, tmp_path, 4, degrees=(("dp", 2),), zero=str(zero))
        for zero in (0, 1, 3)
    }
    cases[net, "tensor"] = pipelined(net, tmp_path, 4, degrees=(("tp", 2),))
    for case, seen in trained_on(4, cases, tmp_path).items():
        assert seen["losses"] == pytest.approx(seen["alone"], rel=1e-4), case
        assert max(seen["errors"].values()) < 1e-4, case


def test_losses_and_gradients_are_those_of_one_device(trained: dict[Case, dict[str, Any]]) -> None:
    assert len(trained) >= 9
    for case, found in trained.items():
        assert found["losses"] == pytest.approx(found["alone"], rel=1e-4), case
        assert max(found["errors"].values()) < 1e-5, case
        assert found["losses"][-1] < found["losses"][0], case


def test_parameters_rest_as_the_plan_says(trained: dict[Case, dict[str, Any]]) -> None:
    assert all("Shard" in s for s in trained["gpt", SHARDED]["shards"])
    assert not any("Shard" in s for s in trained["gpt", DATA]["shards"])


def test_messages_are_those_of_the_plan(
    planned: dict[Case, Plan], trained: dict[Case, dict[str, Any]]
) -> None:
    for (net, scheme), found in trained.items():
        if scheme in {DATA, TENSOR} and net != "gpt":  # gpt hands out whole scores
            sent = sorted((k, s, b, n) for k, s, b, n in found["sent"])
            plan = [
                (t.kind, t.group_size, t.nbytes, t.count)
                for t in predicted_traffic(planned[net, scheme])
            ]
            assert sent == sorted(plan), (net, scheme)


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_gradients_are_reduced_as_often_and_to_where_the_plan_says(
    planned: dict[Case, Plan], trained: dict[Case, dict[str, Any]], zero: int
) -> None:
    case = "gpt with loss", f"ZeRO {zero}"
    plan, found = planned[case], trained[case]
    assert plan.pipeline.micro_batches == 2
    sent = sorted((k, s, b, n) for k, s, b, n in found["sent"])
    expected = predicted_traffic(plan)
    assert sent == sorted((t.kind, t.group_size, t.nbytes, t.count) for t in expected)
    assert all("Shard" in s for s in found["shards"]) == bool(zero)


def test_sums_of_gradients_travel_in_buckets(
    planned: dict[Case, Plan], trained: dict[Case, dict[str, Any]]
) -> None:
    case = "gpt with loss", DATA
    sums = sum(n for kind, _, _, n in trained[case]["sent"] if kind == "all_reduce")
    assert sums > len(planned[case].parameters)
    assert trained[case]["calls"] < sums / 3


def test_gathered_parameters_travel_in_buckets(trained: dict[Case, dict[str, Any]]) -> None:
    found = trained["gpt with loss", SHARDED]
    sent = sum(n for kind, _, _, n in found["sent"] if kind == "all_gather")
    assert 0 < found["gathers"] <= sent / 4  # in both passes
    assert found["ahead"] == [True, True]


@pytest.mark.parametrize("net", ["gpt with loss", "llama", "experts", "u-net"])
def test_fully_sharded_modules_send_what_the_plan_says(
    planned: dict[Case, Plan], trained: dict[Case, dict[str, Any]], net: str
) -> None:
    """All but what a fused chain gathers again: torch may have kept what it makes of it."""
    plan = planned[net, SHARDED]
    fused = {op.name for op in plan.graph.ops if op.kind == FUSED}
    again = [c for c in plan.collectives if c.cause in GATHER and c.operator in fused]
    spared = len(again) - len({(c.tensor, c.operator, c.operand) for c in again})
    sent = {kind: (nbytes, count) for kind, _, nbytes, count in trained[net, SHARDED]["sent"]}
    for item in predicted_traffic(plan):
        nbytes, count = sent.pop(item.kind)
        if item.kind == "all_gather":
            assert item.count - spared <= count <= item.count
            assert nbytes <= item.nbytes
        else:
            assert (nbytes, count) == (item.nbytes, item.count)
    assert not sent


def test_products_are_computed_once(trained: dict[Case, dict[str, Any]]) -> None:
    """The backward pass has two for each of the forward pass, and no more."""
    for scheme in (DATA, TENSOR, SHARDED):
        forward, backward = trained["gpt with loss", scheme]["products"]
        assert backward == 2 * forward > 0, scheme


def test_what_is_computed_again_is_computed_in_the_backward_pass(
    trained: dict[Case, dict[str, Any]],
) -> None:
    kept, again = (
        sum("relu" in name for name in trained["perceptron", scheme]["backward"])
        for scheme in (DATA, "recomputed")
    )
    assert again == kept + 1


def test_gathered_parameters_are_gathered_again(
    planned: dict[Case, Plan], trained: dict[Case, dict[str, Any]]
) -> None:
    plan = planned["perceptron", SHARDED]
    expected = {t.kind: t.count for t in predicted_traffic(plan)}
    sent = {kind: count for kind, _, _, count in trained["perceptron", SHARDED]["sent"]}
    assert sent["all_gather"] == expected["all_gather"] > len(plan.parameters)


def test_another_model_is_named_with_what_differs(
    planned: dict[Case, Plan], tmp_path: Path
) -> None:
    with pytest.raises(MismatchError, match="only the plan has parameter head") as raised:
        matched(one_stage(planned["gpt", DATA]), graph_of("perceptron", tmp_path))
    assert "only the model has operator" in str(raised.value)
