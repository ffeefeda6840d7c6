r"""One conventional layout priced both ways: by its sizes, and as a plan that is held to it.

`planner layouts` prices a layout by the sizes of its model with constants fitted to published runs
(`costmodel.training`); a search prices operators one by one. Both are taken here where nothing
overlaps, and put side by side product by product and byte by byte, on one device for one step.

    python -m benchmarks.two_estimators llama3_8b tp=8,dp=2
"""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from costmodel.training.calibration import shipped_calibration
from costmodel.training.ends import ends_s
from costmodel.training.families import family_of
from costmodel.training.layers import (
    dense_products,
    inward_products,
    layer_times,
    outward_products,
    product,
    products16_s,
    tokens,
)
from costmodel.training.memory import memory_use
from costmodel.training.passes import IN_TURN, layer_terms
from costmodel.training.step import times_in_turn
from costmodel.training.table import RunTable
from importers.hf_config import import_config
from importers.sizes import configuration
from ir.plan_enums import Cause
from planner.request import SearchRequest
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.options.simulations import LayoutOptions
from planner.requests.search_request import with_restriction
from planner.search import search
from topology.catalogue import named_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from costmodel.training.layers import Product
    from costmodel.training.records import TrainingRun
    from ir.plan import NamedLayout, Plan, PlannedOperator

SECONDS, FLOPS, KERNELS, BYTES = "s", "FLOP", "kernels", "bytes"
_PRODUCTS = {
    "queries, keys and values": r"self_attn\.[qkv]_proj",
    "attention output": r"self_attn\.o_proj",
    "up": r"mlp\.(gate|up)_proj",
    "down": r"mlp\.down_proj",
    "head": r"^lm_head",
}
"""Products by the names that they have in a network of Llama's form."""


class Compared(NamedTuple):
    """One quantity of a step on one device, both ways."""

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

Quantities = dict[tuple[str, str], float]
"""Of a step on one device, by name and unit."""


def compared(
    model: str, degrees: str, batch: int = 16, sequence: int = 4096, cluster: str = "dgx-h100"
) -> list[Compared]:
    """A dense model in one micro-batch, without stages: every quantity that either way knows.

    Args:
        model: one of `planner sizes --list`, of Llama's form.
        degrees: such as `tp=8,dp=2`.
        batch: sequences of a step.
        sequence: tokens of each.
        cluster: name of the machine.
    """
    config = dict(configuration(model))
    parts = dict(part.split("=") for part in degrees.split(","))
    micro = batch // int(parts.get("dp", 1))
    options = LayoutOptions(
        layout=f"{degrees},batch={batch},seq={sequence},micro={micro},zero=0", cluster=cluster
    )
    sizes = by_sizes(run_of_layout(options, config, model))
    devices = math.prod(int(degree) for degree in parts.values())
    plan = by_plan(_plan(config, degrees, devices, (batch, sequence, cluster)))
    names = dict.fromkeys((*sizes, *plan))
    return [Compared(*name, sizes.get(name, 0.0), plan.get(name, 0.0)) for name in names]


def _plan(
    config: Mapping[str, object], degrees: str, devices: int, job: tuple[int, int, str]
) -> Plan:
    """The plan that `planner search` gives if it is held to the degrees, whatever it holds."""
    batch, sequence, cluster = job
    sizes = {"batch": batch, "sequence": sequence}
    graph = import_config({**config, "torch_dtype": "bfloat16"}, "model", "model", sizes)
    request = SearchRequest(
        global_batch=batch, micro_batch=str(batch), pipeline="off", zero="0", recompute="none",
        sequence_parallel="off", target="torch", memory_limit_bytes=1e15, overlap="none",
    )  # fmt: skip
    held = with_restriction(request, degrees, "DEGREES")
    return search(graph, named_cluster(cluster, devices), held)


def by_sizes(run: TrainingRun) -> Quantities:
    """What `costmodel.training` says of a run, where nothing overlaps."""
    table, known = RunTable.of([run]), shipped_calibration()
    c = known.constants[family_of(run)[0].name].in_turn()
    layers, times, layer = run.model.layers, times_in_turn(table, c), layer_terms(table, c, IN_TURN)
    products = (*inward_products(table), *outward_products(table), *dense_products(table))
    found: Quantities = {}
    for each in products:
        forward, backward = product(table, c, each.rows, each.n, each.k)
        _add(
            found, each.name, layers * _flops(each), layers, layers * float((forward + backward)[0])
        )
    columns = table.vocab / table.tp
    head_s = float(products16_s(table, c, columns, table.hidden)[0])
    _add(found, "head", float((2.0 * tokens(table) * table.hidden * columns)[0]), 1, head_s)
    dense = layer_times(table, c)[0]
    embedding_s, head_and_loss_s = (float(end[0]) for end in ends_s(table, c))
    replicas = run.layout.dp
    parameters = float(memory_use(table, known.memory_of(run.profile)).parameters[0]) / 2.0
    sent = layers * 2 * float(table.mixing.blocks[0]) * 2  # a gather and a scatter of each
    found |= {
        ("attention core", SECONDS): layers * float((dense.core + dense.core_backward)[0]),
        ("element-wise", SECONDS): layers * float((dense.stream + dense.stream_backward)[0]),
        ("embedding", SECONDS): embedding_s,
        ("loss", SECONDS): head_and_loss_s - head_s,
        ("host", SECONDS): 2 * layers * float(layer.host[0]) + c.host_micro_s + c.step_s,
        ("tensor parallel", SECONDS): 2 * layers * float(layer.sent[0]),
        ("tensor parallel", BYTES): sent * float((2.0 * tokens(table) * table.hidden)[0]),
        ("gradients", SECONDS): float(times.gradients[0]),
        ("gradients", BYTES): (replicas > 1) * 0.75 * 4.0 * parameters,
        ("update", SECONDS): float(times.optimizer[0]),
        ("step", SECONDS): float(times.total[0]),
    }
    use = memory_use(table, known.memory_of(run.profile))
    return found | {
        ("weights", BYTES): float(use.parameters[0]),
        ("gradients held", BYTES): float(use.gradients[0]),
        ("optimizer state", BYTES): float(use.optimizer[0]),
        ("activations", BYTES): float(use.activations[0] + use.logits[0] + use.buffers[0]),
        ("runtime", BYTES): known.memory_of(run.profile).context_bytes,
        ("peak", BYTES): float(use.total[0]),
    }


def _flops(each: Product) -> float:
    return float((2.0 * each.rows * each.n * each.k)[0])


def _add(found: Quantities, name: str, flops: float, kernels: float, seconds: float) -> None:
    """One product more: its forward operations and kernels, and the seconds of all passes."""
    for unit, value in ((FLOPS, flops), (KERNELS, kernels), (SECONDS, seconds)):
        found[name, unit] = found.get((name, unit), 0.0) + value


def by_plan(plan: Plan) -> Quantities:
    """What a plan of one stage and one micro-batch says of the same, in the same words."""
    found: Quantities = {}
    for each in plan.operators:
        name = next((n for n, known in _PRODUCTS.items() if re.search(known, each.name)), "")
        if each.kind == "MatMul" and name:
            _add(found, name, _planned_flops(plan, each), 1, each.compute_s)
        else:
            _sum(found, _role(each), SECONDS, each.compute_s)
    for sent in plan.collectives:
        once = sent.cause in {Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS}
        name = "gradients" if once else "tensor parallel"
        both = 2 if sent.kind == "all_reduce" and not once else 1
        _sum(found, name, BYTES, both * sent.nbytes * sent.count)
        _sum(found, name, SECONDS, sent.time_s)
    causes = plan.estimate.memory_by_cause
    return found | {
        ("update", SECONDS): plan.estimate.time_by_cause[Cause.UPDATE],
        ("step", SECONDS): plan.estimate.step_time_s,
        ("weights", BYTES): causes["weights"],
        ("gradients held", BYTES): causes["gradients"],
        ("optimizer state", BYTES): causes["optimizer state"],
        ("activations", BYTES): causes["activations"] + causes["temporaries"] + causes["inputs"],
        ("peak", BYTES): plan.estimate.peak_memory_bytes,
    }


def _sum(found: Quantities, name: str, unit: str, value: float) -> None:
    found[name, unit] = found.get((name, unit), 0.0) + value


def _role(operator: PlannedOperator) -> str:
    """What an operator that is no product is called."""
    names = {"Attention": "attention core", "Gather": "embedding", "Loss": "loss"}
    return names.get(operator.kind, "element-wise")


def _planned_flops(plan: Plan, operator: PlannedOperator) -> float:
    """Forward operations of a product on one device."""
    op = next(each for each in plan.graph.ops if each.name == operator.name)
    inner = _local(plan, op.inputs[0], operator.inputs[0])[-1]
    return 2.0 * inner * math.prod(_local(plan, op.outputs[0], operator.outputs[0]))


def _local(plan: Plan, tensor: str, layout: NamedLayout | None) -> list[float]:
    """Sizes of a tensor on one device."""
    axes = {name: size for name, size, _ in plan.mesh}
    dims = [float(dim) for dim in plan.graph.tensors[tensor].dims]
    cuts = layout.dims if layout is not None else ((),) * len(dims)
    return [dim / math.prod(axes[a] for a in cut) for dim, cut in zip(dims, cuts, strict=True)]


def lines(found: Sequence[Compared]) -> Iterator[str]:
    """The table as text."""
    yield HEAD
    yield from map(str, found)


def main() -> None:
    """Price a layout both ways and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="one of `planner sizes --list`, of Llama's form")
    parser.add_argument("degrees", help="such as tp=8,dp=2")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--cluster", default="dgx-h100")
    options = parser.parse_args()
    name = options.model.replace("_", "-")
    print("\n".join(lines(compared(
        name, options.degrees, options.batch, options.sequence, options.cluster
    ))))  # fmt: skip


if __name__ == "__main__":
    main()
