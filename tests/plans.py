"""A plan made by hand."""

from __future__ import annotations

from ir.graph import Op, OpGraph, Role, Tensor
from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedOperator, PlannedTensor
from ir.plan_estimate import Bound, Estimate, Space
from topology.cluster import Chip, Cluster, Tier, TierKind


def _graph() -> OpGraph:
    tensors = [Tensor("ids", (8, 16), "int64", Role.INPUT)]
    ops = []
    for layer in range(2):
        weight, result = f"m.layers.{layer}.proj.weight", f"h{layer}"
        tensors.append(Tensor(weight, (1024, 1024), "bfloat16", Role.PARAMETER))
        tensors.append(Tensor(result, (8, 16, 1024), "bfloat16"))
        scope = f"m.layers.{layer}.proj"
        ops.append(Op(f"op{layer}", "MatMul", ("ids", weight), (result,), {}, scope))
    ops.append(Op("end", "Softmax", ("h1",), ("y",), {}, "m.head"))
    tensors.append(Tensor("y", (8, 16, 1024), "bfloat16"))
    table = {t.name: t for t in tensors}
    return OpGraph("tiny", table, tuple(ops), ("ids",), ("y",), batch=8)


def _operators(graph: OpGraph) -> tuple[PlannedOperator, ...]:
    rows = NamedLayout((("server", "card0", "card1"), ()))
    data = NamedLayout((("server", "card0", "card1"), (), ()))
    weight = NamedLayout(((), ("card0", "card1")))
    partial = NamedLayout(((), (), ()), ("card0", "card1"))
    out = []
    for op in graph.ops:
        operands = (rows, weight) if op.kind == "MatMul" else (data,)
        results = (partial,) if op.kind == "MatMul" else (data,)
        split = (("server", 0), ("card0", 0), ("card1", 1))
        time_s = 0.25 if op.kind == "MatMul" else 0.5
        out.append(
            PlannedOperator(op.name, op.kind, op.label, op.scope, split, operands, results, time_s)
        )
    return tuple(out)


def _cluster() -> Cluster:
    chip = Chip("chip", "Chip", {"bfloat16": 1e12}, 1e11, 8 * 2**30, 1e12, 0.5, 0.5, 1e-6)
    tiers = (
        Tier("server", 2, TierKind.SWITCH, 1e9, 2e9, 1e-6),
        Tier("card", 4, TierKind.FULL_MESH, 1e10, 2e10, 1e-6),
    )
    return Cluster("pair", chip, tiers, reserved_memory_bytes=4 * 2**30)


def tiny_plan() -> Plan:
    """Two servers of four cards, two equal layers and a head; no two numbers mean the same."""
    graph = _graph()
    rest, used = NamedLayout((("server", "card0"), ("card1",))), NamedLayout(((), ("card1",)))
    parameters = tuple(
        PlannedTensor(t.name, "parameter", t.dims, t.dtype, rest, used) for t in graph.parameters
    )

    def collective(
        kind: str, axes: tuple[str, ...], size: int, nbytes: float, cause: str
    ) -> PlannedCollective:
        tier = "server" if "server" in axes else "card"
        return PlannedCollective(kind, axes, size, nbytes, 2, 0.5, tier, cause, "", "")

    return Plan(
        graph=graph,
        digest="0",
        cluster=_cluster().to_dict(),
        mesh=(("server", 2, 0), ("card0", 2, 1), ("card1", 2, 1)),
        rank_order=tuple(range(8)),
        request={"training": True, "optimizer": "adamw", "target": "generic"},
        operators=_operators(graph),
        tensors=parameters,
        recomputed=("h0", "h1"),
        collectives=(
            collective("all_reduce", ("card0", "card1"), 4, 10.0, "gradient sync"),
            collective("all_gather", ("card1", "card0"), 4, 5.0, "parameter gather"),
            collective("all_gather", ("server",), 2, 100.0, "parameter gather"),
            collective("all_gather", ("server",), 2, 100.0, "forward"),
        ),
        estimate=Estimate(
            step_time_s=3.0,
            time_by_cause={
                "all_reduce in card": 0.5,
                "all_gather in card": 0.5,
                "all_gather in server": 1.0,
                "compute forward": 1.0,
            },
            peak_memory_bytes=3 * 2**30,
            memory_limit_bytes=4 * 2**30,
            memory_by_cause={"activations": 2 * 2**30, "weights": 2**30},
        ),
        space=Space("free", ((("server", 2), ("card", 4)),), 7, 1234, 40, 12.3, 5),
        bound=Bound(2.5, 0.2, "bounded", "portfolio"),
        notes=("a note",),
    )
