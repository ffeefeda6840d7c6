"""Small plans for the tests of views."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder, attention_block, mlp
from topology.catalogue import named_cluster

FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None, target="generic")


@cache
def plan_of(name: str, devices: int = 16, batch: int = 0) -> Plan:
    """A plan of an attention block, or of `layers` equal pairs of products."""
    if name == "attention":
        graph = attention_block(batch=batch or 32)
    elif name == "layers":
        graph = layers(6)
    else:
        graph = mlp(3, batch=batch or 4096)
    return search(graph, named_cluster("atlas-800t-a2", devices), FAST)


def layers(count: int) -> OpGraph:
    """Equal layers between an embedding and a head, with scopes."""

    build = GraphBuilder("layers")
    x = build.input("x", (256, 512))
    scopes = ["m.embed"]
    x = build.op("MatMul", (x, build.weight("m.embed.weight", (512, 512))), (256, 512))
    for layer in range(count):
        up = build.weight(f"m.layers.{layer}.up", (512, 1024))
        down = build.weight(f"m.layers.{layer}.down", (1024, 512))
        h = build.op("MatMul", (x, up), (256, 1024))
        h = build.op("Relu", (h,), (256, 1024))
        x = build.op("MatMul", (h, down), (256, 512))
        scopes += [f"m.layers.{layer}.mlp"] * 3
    x = build.op("MatMul", (x, build.weight("m.head.weight", (512, 128))), (256, 128))
    scopes.append("m.head")
    graph = build.build(x)
    ops = [replace(op, scope=scope) for op, scope in zip(graph.ops, scopes, strict=True)]
    return graph.with_ops(ops)
