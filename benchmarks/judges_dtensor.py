"""What DTensor says of plans of known models: `python benchmarks/judges_dtensor.py [MODEL...]`.

For every model and scheme: whether kinds, groups and numbers of messages are those of the plan, the
largest gap in bytes, how many operators DTensor ran by its own rules, and how many redistributions
it would have sent so by itself. Small copies of the models, on 64 ranks that hold no numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from executors.dtensor.counts import Counts, counted  # noqa: E402
from executors.judgement import Judgement, predicted_traffic  # noqa: E402
from executors.rescaling import rescaled  # noqa: E402
from executors.shrink import shrunk  # noqa: E402
from importers.onnx import import_onnx  # noqa: E402
from ir.plan import Plan  # noqa: E402
from planner.request import SearchRequest  # noqa: E402
from tests.judges.schemes import SCHEMES, plans  # noqa: E402

MODELS = ("gpt2_small", "bert_base", "llama3_8b_op24", "resnet50")


def main() -> None:
    """Print a row for every model and scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--full", action="store_true", help="at full extents and depth")
    chosen = parser.parse_args()
    print("| model | plan | messages | counts | largest gap in bytes | own rules | own ways | s |")
    print("|---|---|--:|---|--:|--:|--:|--:|")
    for model in chosen.models:
        graph = import_onnx(ROOT / "tests" / "data" / "models" / f"{model}.onnx.gz")
        batch = max(chosen.devices, graph.batch)
        request = SearchRequest(target="torch", training=True, batch=batch)
        for name in SCHEMES:
            for plan in plans(graph, chosen.devices, request, wanted=[name]).values():
                small = plan if chosen.full else rescaled(shrunk(plan).plan, plan)
                print(_row(model, name, small), flush=True)


def _row(model: str, name: str, plan: Plan) -> str:
    start = time.perf_counter()
    counts = counted(plan, training=True)
    took = time.perf_counter() - start
    judgement = Judgement("", (), predicted_traffic(plan), counts.traffic, counts.not_run)
    same = all(c.predicted_count == c.emitted_count for c in judgement.comparisons)
    gap = max((_gap(c.predicted_bytes, c.emitted_bytes) for c in judgement.comparisons), default=0)
    said = "equal" if same and not counts.not_run else "differ"
    messages = sum(item.count for item in counts.traffic)
    cells = [model, name, messages, said, f"{gap:.2%}", _own(plan, counts), _ways(counts)]
    return "| " + " | ".join(str(c) for c in [*cells, f"{took:.1f}"]) + " |"


def _gap(one: float, other: float) -> float:
    return abs(one - other) / max(one, other)


def _own(plan: Plan, counts: Counts) -> str:
    operators = sum(bool(op.outputs) for op in plan.graph.ops)
    return f"{operators - len({name for name, _ in counts.parted})} of {operators}"


def _ways(counts: Counts) -> str:
    return f"{counts.own_ways} of {counts.own_ways + counts.other_ways.total()}"


if __name__ == "__main__":
    main()
