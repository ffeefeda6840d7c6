"""Whether explanations tell the differences that searches with a pin find.

    python -m benchmarks.explain_differences plan.json OPERATOR...

For every candidate that is shown of an operator the plan's search is made again with the candidate
pinned. Without operators the first products of the plan are taken.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from ir.plan import Plan
from ir.plan_file import read_plan
from planner.explain import why
from planner.explain.plan_request import request_of
from planner.lowering.liveness import analyse
from planner.pipeline.baselines import batch_places
from planner.requests.option_texts import pins
from planner.search import PreparedModel, search
from topology.cluster import Cluster

USUAL = 3
"""Operators that are taken if none is named."""
SAME = 1e-12
"""Part of a step up to which two differences are one number, computed in another order."""


def compared(plan: Plan, operator: str) -> tuple[int, int]:
    """Candidates of an operator that were compared, and those whose difference is the same."""
    cluster, request = Cluster.from_dict(plan.cluster), request_of(plan)
    ready = PreparedModel(
        analyse(plan.graph, training=request.training), (), batch_places(plan.graph)
    )
    step_s, began_s = plan.estimate.step_time_s, time.process_time()
    found = why(plan, operator)
    print(f"{operator}: explained in {time.process_time() - began_s:.1f} s of processor time")
    count = same = 0
    for rival in found.rivals:
        if rival.delta_s is None:
            continue
        held = replace(request, pins=pins([f"{operator}={rival.cuts}"]), time_limit_s=None)
        other = search(plan.graph, cluster, held, ready=ready)
        searched_s = other.estimate.step_time_s - step_s
        if other.mesh != plan.mesh:
            print(f"  {rival.cuts}: the search with the pin is on another mesh")
            continue
        count, same = count + 1, same + (abs(searched_s - rival.delta_s) <= SAME * step_s)
        print(f"  {rival.cuts}: {rival.delta_s:+.9g} s explained, {searched_s:+.9g} s searched")
    return count, same


def main() -> None:
    """Read arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("operators", nargs="*")
    given = parser.parse_args()
    plan = read_plan(given.plan)
    products = [op.name for op in plan.operators if op.kind == "MatMul"]
    found = [compared(plan, name) for name in given.operators or products[:USUAL]]
    counts = [sum(column) for column in zip(*found, strict=True)]
    print(f"{counts[1]} of {counts[0]} differences are the same")


if __name__ == "__main__":
    main()
