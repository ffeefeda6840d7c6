r"""Conventional layouts priced both ways: by the sizes of a model, and as plans held to them.

`planner layouts` prices a layout by sizes (`costmodel.training`), a search prices operators one by
one. Both do so here with the profile `generic`, kernels and messages as they take alone, and where
nothing overlaps; products, messages and bytes are put side by side, on one device of every stage
for one step. What may differ is named in docs/step.md and in the test of this module.

    python -m benchmarks.two_estimators [PAIR ...]
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.two_estimators_by_sizes import by_sizes
from benchmarks.two_estimators_words import (
    BYTES,
    CONTEXT,
    ENDS,
    EXCHANGE,
    FLOPS,
    GRADIENTS,
    KERNELS,
    SECONDS,
    SENDS,
    TENSOR,
    VECTORS,
    Quantities,
    add,
)
from costmodel.software import GENERIC
from importers.hf_config import import_config
from importers.sizes import configuration
from ir.plan_enums import Cause
from planner.request import SearchRequest
from planner.requests.conventional_layouts import parsed, run_of_layout
from planner.requests.options.simulations import LayoutOptions
from planner.requests.search_request import with_restriction
from planner.search import search
from topology.catalogue import named_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedOperator, PlannedTensor

_PRODUCTS = {
    "latent queries": r"\.q_b_proj/",
    "latent keys": r"\.kv_b_proj/",
    "queries": r"\.q_(a_)?proj/",
    "queries, keys and values": r"attn\.c_attn/",
    "keys and values": r"\.([kv]_proj|kv_a_proj_with_mqa)/",
    "attention output": r"(\.o_proj|attn\.c_proj)/",
    "experts up": r"experts/MatMul$",
    "experts down": r"experts/MatMul_2$",
    "router": r"mlp\.gate/",
    "shared up": r"shared_experts\.(gate|up)_proj/",
    "shared down": r"shared_experts\.down_proj/",
    "up": r"(\.gate_proj|\.up_proj|\.c_fc)/",
    "down": r"(\.down_proj|mlp\.c_proj)/",
    "head": r"^lm_head",
}
"""Products by the names that they have in networks of Llama's, Mixtral's, DeepSeek's and GPT-2's
form."""
_PLAIN = {"model_type": "llama", "hidden_act": "silu", "max_position_embeddings": 8192}
_MODELS: Mapping[str, Mapping[str, object]] = {
    "grouped": {**configuration("llama3-8b"), "num_hidden_layers": 4},
    "tied": {
        **_PLAIN, "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 5632, "vocab_size": 50304,
        "tie_word_embeddings": True,
    },
    "gpt2": {**configuration("gpt2-xl"), "n_layer": 4},
    "routed": {**configuration("mixtral-8x7b"), "num_hidden_layers": 4},
    "latent": {
        **configuration("deepseek-v3"), "num_hidden_layers": 4, "first_k_dense_replace": 1,
        "n_routed_experts": 16, "num_nextn_predict_layers": 0,
    },
}  # fmt: skip
"""Grouped heads, tied vocabulary tables, GPT-2's biases and layer norms, routed experts, latent
attention with shared experts and a dense layer."""

_JOINED = {"gpt2"}
"""Whose graphs have one product for queries, keys and values."""

_DENSE = (
    "dp=8,batch=8",
    "dp=16,batch=32,micro=2,zero=1",
    "dp=8,batch=32,micro=2,zero=2",
    "dp=8,batch=8,zero=3",
    "dp=8,batch=16,recompute=full",
    "pp=2,dp=8,batch=32,micro=1",
    "pp=2,vpp=2,dp=8,batch=32,micro=1",
    "pp=4,dp=4,batch=32,micro=2",
    "dp=16,batch=32,zero=3",
    "dp=8,batch=8,recompute=selective",
    "pp=2,dp=4,batch=16,recompute=full",
)
_SPLIT = (
    "tp=8,dp=2,batch=16,micro=8,sp",
    "tp=4,dp=2,batch=8,micro=4,sp,zero=1",
    "tp=2,dp=4,batch=16,micro=2,sp,zero=2",
    "tp=2,dp=4,batch=8,sp,zero=3",
    "tp=4,dp=2,batch=8,sp,recompute=full",
    "tp=2,pp=2,dp=4,batch=16,micro=2,sp",
    "tp=4,pp=2,vpp=2,dp=2,batch=8,sp",
    "cp=2,dp=4,batch=8",
    "cp=4,batch=4,micro=4",
    "cp=2,dp=4,batch=8,zero=1",
    "cp=2,dp=4,batch=8,zero=2",
    "cp=2,dp=4,batch=8,zero=3",
    "cp=2,dp=4,batch=8,recompute=full",
    "tp=2,cp=2,dp=2,batch=4,sp",
)
_ROUTED = (
    "dp=8,ep=8,batch=8",
    "dp=8,ep=4,batch=16,micro=2",
    "dp=4,ep=2,batch=8",
    "dp=8,batch=8",
    "dp=8,batch=16,micro=1,recompute=full",
    "pp=2,dp=4,ep=4,batch=16,micro=2",
    "dp=8,ep=8,batch=8,zero=1",
    "dp=8,ep=8,batch=16,zero=2",
    "dp=8,ep=8,batch=8,zero=3",
    "dp=8,batch=8,zero=3",
    "pp=2,dp=4,ep=4,batch=16,micro=2,zero=1",
)
PAIRS: tuple[tuple[str, str], ...] = (
    *(("grouped", layout) for layout in (*_DENSE, *_SPLIT)),
    *(("tied", layout) for layout in (_DENSE[0], *_DENSE[2:4], _DENSE[5], *_SPLIT[:6])),
    *(("gpt2", layout) for layout in _DENSE[:7]),
    *(("routed", layout) for layout in _ROUTED),
    *(("latent", layout) for layout in (_ROUTED[0], *_ROUTED[3:9])),
)
"""A model and a layout of it."""
_SEQUENCE, _CLUSTER = 1024, "dgx-h100"


class Compared(NamedTuple):
    """One quantity of a step, both ways."""

    name: str
    unit: str
    by_sizes: float
    by_plan: float

    @property
    def ratio(self) -> float:
        """The plan's over that by sizes; not a number where both are nothing."""
        if self.by_sizes:
            return self.by_plan / self.by_sizes
        return math.inf if self.by_plan else math.nan

    def __str__(self) -> str:
        return (
            f"{self.name:<28}{self.unit:<8}{self.by_sizes:>16.6g}{self.by_plan:>16.6g}"
            f"{self.ratio:>9.4f}"
        )


HEAD = f"{'':<28}{'unit':<8}{'by sizes':>16}{'by plan':>16}{'ratio':>9}"


def compared(model: str, layout: str) -> list[Compared]:
    """Every quantity that either way knows.

    Args:
        model: one of `_MODELS`.
        layout: as `planner layouts` reads it, without the length of a sequence.
    """
    config = _MODELS[model]
    asked = LayoutOptions(
        layout=f"{layout},seq={_SEQUENCE}", cluster=_CLUSTER, profile=GENERIC.name
    )
    run = run_of_layout(asked, config, model)
    if model in _JOINED:
        run = replace(run, flags=run.flags - {"apart-products"})
    sizes, plan = by_sizes(run), by_plan(held_plan(config, layout))
    names = dict.fromkeys((*sizes, *plan))
    return [Compared(*name, sizes.get(name, 0.0), plan.get(name, 0.0)) for name in names]


def held_plan(config: Mapping[str, object], layout: str) -> Plan:
    """The plan of a search that is held to a layout, whatever it holds."""
    parts = parsed(layout)
    tp, dp, cp, pp, ep, zero, batch, micro = (
        int(parts.get(name, "0" if name == "zero" else "1"))
        for name in ("tp", "dp", "cp", "pp", "ep", "zero", "batch", "micro")
    )
    sizes = {"batch": batch, "sequence": _SEQUENCE}
    graph = import_config({**config, "torch_dtype": "bfloat16"}, "model", "model", sizes)
    request = SearchRequest(
        global_batch=batch, micro_batch=str(micro * dp), zero=str(zero), target="torch",
        recompute=parts.get("recompute", "none"), memory_limit_bytes=1e15, overlap="none",
        sequence_parallel="on" if "sp" in parts else "auto" if cp > 1 else "off",
        context_parallel=str(cp) if cp > 1 else "auto",
        pipeline=str(pp) if pp > 1 else "off",
        interleave=parts.get("vpp", "1") if pp > 1 else "auto",
    )  # fmt: skip
    degrees = f"tp={tp},dp={dp}" + f",ep={ep}" * (ep > 1) + ",zero3" * (zero == 3)
    cluster = named_cluster(_CLUSTER, tp * dp * cp * pp)
    return search(graph, cluster, with_restriction(request, degrees, "DEGREES"))


def by_plan(plan: Plan) -> Quantities:
    """What a plan says of a step, in the same words."""
    found: Quantities = {}
    times = plan.pipeline.micro_batches
    for each in plan.operators:
        spent_s = each.compute_s + each.recompute_s
        name = next((n for n, known in _PRODUCTS.items() if re.search(known, each.name)), "")
        if each.kind in {"MatMul", "ExpertMatMul"} and name:
            add(found, name, FLOPS, times * _planned_flops(plan, each))
            add(found, name, KERNELS, times)
            add(found, name, SECONDS, spent_s)
        else:
            add(found, _role(each), SECONDS, spent_s)
    for sent in (*plan.collectives, *plan.pipeline.sends):
        both = 2 if sent.kind == "all_reduce" else 1
        name = SENDS if sent in plan.pipeline.sends else _message(plan, sent)
        add(found, name, BYTES, both * sent.nbytes * sent.count)
        if not name.startswith(GRADIENTS):
            add(found, name, SECONDS, sent.time_s)
        elif len(plan.pipeline.stages) == 1:
            add(found, GRADIENTS, SECONDS, sent.time_s)
    if len(plan.pipeline.stages) > 1:
        return found
    causes = plan.estimate.memory_by_cause
    for held in plan.parameters:
        if not _is_matrix(held.name, held.dims):
            add(found, "vectors updated", SECONDS, held.update_s)
            continue
        at_rest, states = (_elements(plan, held, at) for at in (held.layout, held.states))
        add(found, "update", SECONDS, held.update_s)
        add(found, "weights", BYTES, 2.0 * at_rest)
        add(found, "gradients held", BYTES, 2.0 * (states if held.zero > 1 else at_rest))
        add(found, "optimizer state", BYTES, 12.0 * states)
    return found | {
        ("step", SECONDS): plan.estimate.step_time_s,
        ("activations", BYTES): causes["activations"] + causes["temporaries"] + causes["inputs"],
        ("peak", BYTES): plan.estimate.peak_memory_bytes,
    }


def _message(plan: Plan, sent: PlannedCollective) -> str:
    """What a message is called."""
    names = (sent.tensor, sent.operator)
    at_end = not any(re.search(r"\b(layers|h)\.\d", name) for name in names)
    at_end |= any(sent.tensor == each.tensor for each in plan.pipeline.sends)
    if sent.cause in {Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS, Cause.PARAMETER_GATHER}:
        if not _is_matrix(sent.tensor, plan.graph.tensors[sent.tensor].dims):
            return VECTORS
        return f"{GRADIENTS}, ends" if at_end else GRADIENTS
    if at_end:
        return ENDS
    if sent.kind == "all_to_all" and any("experts" in name for name in names):
        return EXCHANGE
    return CONTEXT if "Softmax/attention" in sent.operator else TENSOR


def _elements(plan: Plan, tensor: PlannedTensor, layout: NamedLayout | None) -> float:
    """Of a parameter on a device; where it rests if no layout is said."""
    return math.prod(_local(plan, tensor.name, layout or tensor.layout, _axes(plan, tensor.stage)))


def _is_matrix(name: str, dims: Sequence[object]) -> bool:
    """Whether a parameter is one that sizes count: no vector, no table of positions."""
    return len(dims) > 1 and "wpe" not in name


def _role(operator: PlannedOperator) -> str:
    """What an operator that is no product is called."""
    names = {"Attention": "attention core", "Gather": "embedding", "Loss": "loss"}
    return names.get(operator.kind, "element-wise")


def _planned_flops(plan: Plan, operator: PlannedOperator) -> float:
    """Forward operations of a product on one device."""
    op = next(each for each in plan.graph.ops if each.name == operator.name)
    axes = _axes(plan, operator.stage)
    left, right, result = (
        _local(plan, tensor, layout, axes)
        for tensor, layout in (
            *zip(op.inputs[:2], operator.inputs[:2], strict=True),
            (op.outputs[0], operator.outputs[0]),
        )
    )
    batch = right[0] if len(right) > 2 else 1.0
    return 2.0 * math.sqrt(math.prod(left) * math.prod(right) * math.prod(result) / batch)


def _axes(plan: Plan, stage: int) -> dict[str, int]:
    mesh = plan.pipeline.stages[stage].mesh or plan.mesh
    return {name: size for name, size, _ in mesh}


def _local(
    plan: Plan, tensor: str, layout: NamedLayout | None, axes: Mapping[str, int]
) -> list[float]:
    """Sizes of a tensor on one device."""
    dims = [float(dim) for dim in plan.graph.tensors[tensor].dims]
    cuts = layout.dims if layout is not None else ((),) * len(dims)
    return [dim / math.prod(axes[a] for a in cut) for dim, cut in zip(dims, cuts, strict=True)]


def lines(found: Sequence[Compared]) -> Iterator[str]:
    """The table as text."""
    yield HEAD
    yield from map(str, found)


def main() -> None:
    """Price pairs both ways and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", help="such as grouped:tp=8,dp=2,batch=16; all if none")
    wanted = parser.parse_args().pairs
    for model, layout in [tuple(each.split(":", 1)) for each in wanted] or PAIRS:
        print(model, layout, *lines(compared(model, layout)), sep="\n")


if __name__ == "__main__":
    main()
