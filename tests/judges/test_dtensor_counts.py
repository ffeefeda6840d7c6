"""What DTensor sends on 64 ranks is what plans list: kinds, groups, numbers and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.tensor.debug import CommDebugMode

from executors.dtensor import program
from executors.dtensor.counts import counted
from executors.judgement import Judgement, predicted_traffic
from executors.rescaling import rescaled
from executors.shrink import shrunk
from executors.torch import judge
from importers.onnx import import_onnx
from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import SearchRequest
from tests.builders import GraphBuilder
from tests.executors.drawn_plans import drawn_plan
from tests.judges import dtensor_nets as nets
from tests.judges.schemes import DATA, SCHEMES, TENSOR, plans

MODELS = Path(__file__).parents[1] / "data" / "models"
TRAINING = SearchRequest(target="torch", training=True)
NETS: dict[str, Callable[[], OpGraph]] = {
    "perceptron": lambda: nets.mlp(4, 64, 256, 1024),
    "attention": lambda: nets.attention_block(64, 128, 64, 16),
    "transformer": lambda: nets.transformer(64, 64, 1024, 512, 64, 2048),
    "convolutions": lambda: nets.convolutions(64, 32, 64, 64),
}


def counts_of(plan: Plan) -> Judgement:
    """A judgement without numbers."""
    return judge(plan, {}, processes=False)


def assert_confirmed(judgement: Judgement) -> None:
    assert not judgement.not_run
    assert not judgement.differences
    assert judgement.passed


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("net", NETS)
def test_dtensor_sends_on_64_ranks_what_a_plan_lists(net: str, scheme: str) -> None:
    (plan,) = plans(NETS[net](), 64, TRAINING, wanted=[scheme]).values()
    judgement = counts_of(plan)
    assert_confirmed(judgement)
    assert judgement.emitted


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_small_copy_of_gpt_2_sends_on_64_ranks_what_its_plan_lists(scheme: str) -> None:
    graph = import_onnx(MODELS / "gpt2_small.onnx.gz")
    request = SearchRequest(target="torch", training=True, batch=64)
    (plan,) = plans(graph, 64, request, wanted=[scheme]).values()
    small = shrunk(plan).plan
    judgement = counts_of(rescaled(small, plan))
    assert_confirmed(judgement)
    # A message for the gradient of each parameter is the least that any of these schemes sends.
    assert sum(item.count for item in judgement.emitted) >= len(small.parameters) > 30


@pytest.mark.parametrize("model", ["bert_base", "llama3_8b_op24", "resnet50"])
@pytest.mark.parametrize("scheme", [DATA, TENSOR])
def test_small_copies_of_other_models_send_what_their_plans_list(model: str, scheme: str) -> None:
    graph = import_onnx(MODELS / f"{model}.onnx.gz")
    request = SearchRequest(target="torch", training=True, batch=64)
    (plan,) = plans(graph, 64, request, wanted=[scheme]).values()
    assert_confirmed(counts_of(rescaled(shrunk(plan).plan, plan)))


def test_data_parallelism_reduces_every_weight_once() -> None:
    """Two weights of 16 x 32 and 32 x 16 numbers of four bytes."""
    (plan,) = plans(nets.mlp(2, 8, 16, 32), 8, TRAINING, wanted=[DATA]).values()
    (traffic,) = counted(plan, training=True).traffic
    assert (traffic.kind, traffic.group_size, traffic.count) == ("all_reduce", 8, 2)
    assert traffic.nbytes == 2 * 16 * 32 * 4


def test_inference_sends_what_its_plan_lists() -> None:
    request = SearchRequest(target="torch", training=False)
    for plan in plans(NETS["transformer"](), 64, request).values():
        assert_confirmed(counts_of(plan))


def _exchanges_against_the_order(plan: Plan) -> bool:
    """Whether several axes move at once in another order than ranks are numbered."""
    names = [name for name, _, _ in plan.mesh]
    moved = (item.axes for item in plan.collectives if item.kind == "all_to_all")
    return any([n for n in names if n in axes] != list(axes) for axes in moved)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("net", ["attention", "transformer", "convolutions"])
def test_plans_of_any_shape_send_what_they_list(net: str, seed: int) -> None:
    small = {
        "attention": lambda: nets.attention_block(8, 8, 8, 8),
        "transformer": lambda: nets.transformer(8, 8, 32, 32, 8, 32),
        "convolutions": lambda: nets.convolutions(8, 8, 8, 8),
    }
    plan = drawn_plan(small[net](), 8, TRAINING, seed)
    judgement = counts_of(plan)
    assert not judgement.not_run
    if not _exchanges_against_the_order(plan):
        assert_confirmed(judgement)


@pytest.mark.parametrize("scheme", [DATA, TENSOR])
def test_25_heads_may_be_split_8_ways(scheme: str) -> None:
    graph = nets.heads_of_their_own(8, 25, 8)
    (plan,) = plans(graph, 8, TRAINING, wanted=[scheme]).values()
    uneven = [
        tensor.dims
        for tensor in plan.parameters
        if any(axes and dim % 8 for dim, axes in zip(tensor.dims, tensor.layout.dims, strict=True))
    ]
    assert bool(uneven) == (scheme == TENSOR)
    assert_confirmed(counts_of(plan))


_KINDS = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "shard_dim_alltoall": "all_to_all",
}


def test_torchs_own_account_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message that was not tried in vain, by `CommDebugMode`."""
    plan = plans(NETS["perceptron"](), 64, TRAINING, wanted=[TENSOR])[TENSOR]
    own, run = CommDebugMode(), program.Program.run

    def watched(self: program.Program) -> program.Results:
        with own:
            return run(self)

    monkeypatch.setattr(program.Program, "run", watched)
    counts = counted(plan, training=True)
    assert not counts.parted
    names = {str(op).rpartition(".")[2]: n for op, n in own.get_comm_counts().items()}
    kinds = Counter(item.kind for item in counts.sent)
    assert kinds.total() > 5
    assert Counter({_KINDS[name]: n for name, n in names.items()}) == kinds


def test_an_operator_that_is_not_written_fails_the_judgement() -> None:
    build = GraphBuilder("remainder")
    x = build.op("MatMul", (build.input("x", (8, 16)), build.weight("w", (16, 8))), (8, 8))
    graph = build.build(build.op("Mod", (x, x), (8, 8), fmod=1))
    request = SearchRequest(target="torch", training=False)
    (plan,) = plans(graph, 4, request, wanted=[DATA]).values()
    judgement = counts_of(plan)
    assert "Mod" in judgement.not_run[graph.ops[1].name]
    assert not judgement.passed


def test_statistics_of_a_split_dimension_are_sent_by_hand_and_said_to_be() -> None:
    """Softmax over split columns: DTensor would gather."""
    build = GraphBuilder("soft")
    x = build.op("MatMul", (build.input("x", (8, 16)), build.weight("w", (16, 32))), (8, 32))
    graph = build.build(build.op("Softmax", (x,), (8, 32), name="soft", axis=1))
    request = SearchRequest(target="torch", training=False)
    found = [drawn_plan(graph, 4, request, seed) for seed in range(12)]
    split = [p for p in found if any(n == 1 for _, n in p.operators[1].split)]
    assert split
    for plan in split:
        judgement = counts_of(plan)
        assert predicted_traffic(plan) == judgement.emitted
        assert any("Softmax, forward" in note for note in judgement.notes)
