"""Volumes and limits that everybody can work out by hand (closed forms of the published cases)."""

from __future__ import annotations

from collections import Counter

import pytest

from costmodel.collectives import Collective, CollectiveModel
from ir.graph import OpGraph
from ir.plan_enums import Cause
from ir.rule import ShardingRule
from planner.candidates.layout_tables import local_elements
from planner.candidates.offers import Assignment
from planner.candidates.operators import OpCandidates
from tests.builders import GraphBuilder
from tests.cases import nets
from tests.cases.alpha_beta import UNIT_S, chip, machine, use_alpha_beta
from tests.cases.case_file import case, expected
from tests.cases.planning import Answer, solved, whole
from topology.cluster import Cluster
from topology.mesh import tier_mesh

pytestmark = pytest.mark.fast


def port(devices: int, seconds_per_flop: float = 1e-8) -> Cluster:
    """Devices at one switch without latency: a second is a byte through a port."""
    return machine((devices,), (0,), (1,), chip(seconds_per_flop))


def sent_bytes(kind: Collective, devices: int, nbytes: float) -> float:
    """What each device sends."""
    cluster = port(devices)
    return CollectiveModel(cluster, tier_mesh(cluster)).time_s(kind, nbytes, (0,)) / UNIT_S


def candidates_of(answer: Answer, name: str) -> OpCandidates:
    found = next(n.candidates for n in answer.lowered.nodes if n.name == f"op_{name}")
    assert found is not None
    return found


def product(m: int, k: int, n: int) -> OpGraph:
    build = GraphBuilder("product")
    x, w = build.input("x", (m, k)), build.weight("w", (k, n))
    return build.build(build.op("MatMul", (x, w), (m, n), name="product"))


def operand_elements(m: int, k: int, n: int, devices: int, factor: int) -> int:
    """Elements of both operands on a device where this factor of the product is split."""
    answer = solved(product(m, k, n), port(devices, 1e-15), training=False)
    found = candidates_of(answer, "product")
    mesh, index = answer.lowered.setting.mesh, found.assignments.index((factor,))
    states = [p.states[p.of[index]].forward for p in found.operands if p is not None]
    dims = ((m, k), (k, n))
    return sum(local_elements(d, s, mesh) for d, s in zip(dims, states, strict=True))


def test_columns_or_rows_decide_what_a_device_reads() -> None:
    """colpar_vs_seqpar_bytes"""
    size, wanted = case("colpar_vs_seqpar_bytes")["instance"], expected("colpar_vs_seqpar_bytes")
    m, k, n, t = size["M"], size["K"], size["N"], size["T"]
    rows, columns = 0, 2
    assert operand_elements(m, k, n, t, columns) == wanted["column_elements"]
    assert operand_elements(m, k, n, t, rows) == wanted["sequence_elements"]
    equal = [operand_elements(n, k, n, t, factor) for factor in (rows, columns)]
    assert equal[0] == equal[1]


def encoder(layers: int) -> OpGraph:
    size = case("megatron_layer_comm")["instance"]
    build = GraphBuilder("encoder", "bfloat16")
    x = build.input("x", (size["batch"], size["seq"], size["hidden"]))
    for layer in range(layers):
        x = nets.encoder_layer(build, x, f"layer{layer}", 32, 4 * size["hidden"], bias=False)
    return nets.squared_error(build, x)


def rows_between_products(name: str, rule: ShardingRule, assignment: Assignment) -> bool:
    """Bars all but split rows where residuals are added and normalised, and these elsewhere."""
    if "norm" in name or ".add" in name:
        return assignment != ((rule.results[0] or ((), ()))[1][0],)
    return whole(4, 2048)(name, rule, assignment)


@pytest.mark.parametrize("sequence", [False, True])
def test_a_layer_of_megatron_sends_four_sums(
    sequence: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """megatron_layer_comm: what a second layer adds to the first."""
    use_alpha_beta(monkeypatch)
    size, wanted = case("megatron_layer_comm")["instance"], expected("megatron_layer_comm")
    cluster = machine((size["tp"],), device=chip(1e-13))
    bar = rows_between_products if sequence else whole(size["batch"], size["seq"])
    found = []
    for layers in (1, 2):
        answer = solved(encoder(layers), cluster, bar)
        big = [c for c in answer.collectives if c.cause not in {Cause.GRADIENT_SYNC, Cause.INSIDE}]
        assert {c.nbytes for c in big} == {wanted["tp"]["bytes_each"]}
        found.append(Counter((c.kind, c.cause == Cause.FORWARD) for c in big))
    added = found[1] - found[0]
    if sequence:
        kinds = {kind: added[(kind, True)] + added[(kind, False)] for kind, _ in added}
        assert kinds == {k: wanted["tp_sp"][k] for k in ("all_gather", "reduce_scatter")}
    else:
        sums = wanted["tp"]
        assert added[("all_reduce", True)] == sums["all_reduce_fwd"]
        assert added[("all_reduce", False)] == sums["all_reduce_bwd"]
        assert added.total() == 4


def test_sums_are_as_many_bytes_as_their_halves() -> None:
    """megatron_layer_comm: the same volume with and without sequence parallelism."""
    nbytes = expected("megatron_layer_comm")["tp"]["bytes_each"]
    halves = [Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
    whole_sum = sent_bytes(Collective.ALL_REDUCE, 8, nbytes)
    assert sum(sent_bytes(kind, 8, nbytes) for kind in halves) == pytest.approx(whole_sum)


def recommender() -> OpGraph:
    """Tables, looked up, side by side into a perceptron of about two million weights."""
    size = case("dlrm_embedding")["instance"]
    build, batch, width = GraphBuilder("dlrm"), size["global_batch"], size["dim"]
    rows = []
    for i in range(size["tables"]):
        ids, table = build.input(f"ids{i}", (batch,), "int64"), f"table{i}"
        build.weight(table, (size["rows"], width))
        rows.append(build.op("Gather", (table, ids), (batch, width), name=f"rows{i}", axis=0))
    x = build.op("Concat", rows, (batch, size["tables"] * width), axis=1)
    x = nets.dense(build, x, "top0", 1024, act="Relu", bias=False)
    x = nets.dense(build, x, "top1", 256, act="Relu", bias=False)
    return build.build(nets.dense(build, x, "top2", 8, bias=False))


def test_tables_are_split_and_the_perceptron_is_data_parallel() -> None:
    """dlrm_embedding: split by column, which is as many bytes as a table for each device."""
    size, wanted = case("dlrm_embedding")["instance"], expected("dlrm_embedding")
    graph, limit = recommender(), size["hbm_GB"] * 1e9
    cluster = port(size["devices"], 1e-13)
    answer = solved(graph, cluster, inputs="data_parallel", limit_bytes=limit)
    tables = [t for n, t in answer.tensors.items() if n.startswith("table")]
    assert {str(t.layout) for t in tables} == {"[-, axis0]"}
    assert {answer.at_rest(f"top{i}.w") for i in range(3)} == {"[-, -]"}
    moved = [c for c in answer.collectives if c.kind == "all_to_all" and c.cause == Cause.FORWARD]
    sent = sum(sent_bytes(Collective.ALL_TO_ALL, size["devices"], c.nbytes) for c in moved)
    assert sent == pytest.approx(wanted["table_wise_all_to_all_bytes_per_device"])
    synced = {c.tensor for c in answer.collectives if c.cause == Cause.GRADIENT_SYNC}
    assert synced == {f"top{i}.w" for i in range(3)}


def test_the_volumes_of_a_recommender() -> None:
    """dlrm_embedding"""
    size, wanted = case("dlrm_embedding")["instance"], expected("dlrm_embedding")
    tables = sum(t.nbytes for t in recommender().parameters if t.name.startswith("table"))
    devices, width = size["devices"], size["dim"] * size["dtype_bytes"]
    rows = size["tables"] * size["global_batch"] * width
    assert tables == wanted["table_bytes_total"]
    assert wanted["dp_feasible"] == (tables <= size["hbm_GB"] * 1e9)
    for kind, nbytes, key in (
        (Collective.ALL_REDUCE, tables, "dp_gradient_allreduce_bytes_per_device"),
        (Collective.REDUCE_SCATTER, rows, "row_wise_reduce_scatter_bytes"),
        (Collective.ALL_TO_ALL, rows / devices, "table_wise_all_to_all_bytes_per_device"),
        (Collective.ALL_REDUCE, size["mlp_params"] * size["dtype_bytes"], "mlp_allreduce_bytes"),
    ):
        assert sent_bytes(kind, devices, nbytes) == pytest.approx(wanted[key])


def test_a_vocabulary_stays_split_through_the_loss() -> None:
    """vocab_parallel_xent"""
    size, wanted = case("vocab_parallel_xent")["instance"], expected("vocab_parallel_xent")
    build, rows = GraphBuilder("head"), (size["batch"], size["seq"])
    x = build.input("x", (*rows, size["hidden"]))
    logits = nets.dense(build, x, "head", size["vocab"], bias=False)
    cluster = port(size["tp"], 1e-13)
    answer = solved(build.build(logits), cluster, whole(*rows))
    assert answer.at_rest("head.w") == "[-, axis0]"
    (sums,) = answer.collectives
    assert (sums.kind, sums.cause, sums.count) == ("all_reduce", Cause.INSIDE, 3)
    sent = sums.count * sent_bytes(Collective.ALL_REDUCE, size["tp"], sums.nbytes)
    assert sent == pytest.approx(wanted["vocab_parallel_allreduce_bytes"])
    nbytes = rows[0] * rows[1] * size["vocab"] * size["dtype_bytes"]
    gathered = sent_bytes(Collective.ALL_GATHER, size["tp"], nbytes)
    assert gathered == pytest.approx(wanted["naive_allgather_logits_bytes"])


def experts() -> OpGraph:
    size = case("moe_a2a_volume")["instance"]
    count, width, ffn = 256, size["hidden"], 2048
    rows = size["tokens_per_rank"] * size["ep"] * size["topk"]
    build, slots = GraphBuilder("moe", "bfloat16"), rows // count
    x = nets.dense(build, build.input("x", (rows, 1, width)), "in", width, bias=False)
    inside = (count, slots, 1, width)
    y = build.op("Dispatch", (x, ""), inside)
    up, down = build.weight("up", (count, width, ffn)), build.weight("down", (count, ffn, width))
    y = build.op("ExpertMatMul", (y, up), (count, slots, 1, ffn), row=1)
    y = build.op("ExpertMatMul", (y, down), inside, row=1)
    return nets.squared_error(build, build.op("Combine", (y, ""), (rows, 1, width)))


def test_experts_exchange_their_tokens_four_times() -> None:
    """moe_a2a_volume"""
    size, wanted = case("moe_a2a_volume")["instance"], expected("moe_a2a_volume")
    answer = solved(experts(), port(size["ep"], 1e-13), inputs="data_parallel")
    assert answer.at_rest("up") == answer.at_rest("down") == "[axis0, -, -]"
    moved = [
        c.kind for c in answer.collectives if c.cause in {Cause.FORWARD, Cause.ACTIVATION_GRADIENT}
    ]
    assert moved == ["all_to_all"] * wanted["per_layer_fwd_bwd"]
    sent = [
        sent_bytes(Collective.ALL_TO_ALL, size["ep"], c.nbytes)
        for c in answer.collectives
        if c.kind == "all_to_all"
    ]
    assert sent == [pytest.approx(wanted["dispatch_bytes_per_rank"])] * 4


GQA, GQA_WANTED = case("gqa_tp_limit")["instance"], expected("gqa_tp_limit")


def head_splits(shape: tuple[int, ...]) -> set[tuple[int, int]]:
    """Pieces of query heads and of key heads that attention can have together."""
    build = GraphBuilder("gqa")
    x = build.input("x", (1, 64, 32 * GQA["q_heads"]))
    out = nets.self_attention(
        build, x, "layer", GQA["q_heads"], bias=False, key_heads=GQA["kv_heads"]
    )
    answer = solved(build.build(out), machine(shape), training=False)
    found, sizes = candidates_of(answer, "layer.core"), answer.lowered.setting.mesh.sizes
    query, key = (p for p in found.operands[:2] if p is not None)
    return {
        (query.states[q].forward.shards(sizes)[1], key.states[k].forward.shards(sizes)[1])
        for q, k in zip(query.of, key.of, strict=True)
    }


@pytest.mark.parametrize("tp", GQA_WANTED["clean"])
def test_key_heads_split_as_far_as_there_are_any(tp: int) -> None:
    """gqa_tp_limit"""
    assert (tp, tp) in head_splits((tp,) if tp > 1 else (1, 2))


@pytest.mark.parametrize("tp", GQA_WANTED["needs_kv_replication"])
def test_beyond_key_heads_they_are_repeated(tp: int) -> None:
    """gqa_tp_limit"""
    kv = GQA["kv_heads"]
    assert max(key for _, key in head_splits((tp,))) == 1
    splits = head_splits((kv, tp // kv))
    assert (tp, kv) in splits
    assert max(key for _, key in splits) == kv
