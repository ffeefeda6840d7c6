"""Six families of modules, trained with momentum on four processes as planned.

Eight share two cores for long: PROCESSES=8 asks for them, FAMILIES=llama,experts for some families.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from executors.judgement import predicted_traffic
from tests.judges.schemes import DATA, SEARCHED, SHARDED, TENSOR, plans
from tests.judges.test_parallelize import TRAINING, graph_of, pipelined, trained_on

EVERY = "gpt with loss,llama,vision,images,experts,u-net"
FAMILIES = tuple(os.environ.get("FAMILIES", EVERY).split(","))
SCHEMES = (DATA, SHARDED, TENSOR, SEARCHED)
STAGED = "2 stages"
CLOSE = 1e-5
SIZES = tuple(int(each) for each in os.environ.get("PROCESSES", "4").split(","))


@pytest.mark.parametrize("size", SIZES)
def test_every_layout_trains_as_one_device(
    size: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cases = {
        (net, scheme): plan
        for net in FAMILIES
        for scheme, plan in plans(graph_of(net, tmp_path), size, TRAINING, wanted=SCHEMES).items()
    }
    half = str(size // 2)
    cases |= {(n, STAGED): pipelined(n, tmp_path, size, micro_batch=half) for n in FAMILIES}
    assert len(cases) == len(FAMILIES) * (len(SCHEMES) + 1)
    found = trained_on(size, cases, tmp_path, "momentum")
    losses, gradients, counted = 0.0, 0.0, 0
    for case, seen in found.items():
        assert seen["losses"] == pytest.approx(seen["alone"], rel=CLOSE), case
        assert max(seen["errors"].values()) < CLOSE, case
        pairs = zip(seen["losses"], seen["alone"], strict=True)
        losses = max(losses, *(abs(one / other - 1.0) for one, other in pairs))
        gradients = max(gradients, *seen["errors"].values())
        if case[1] in {DATA, TENSOR}:
            sent = sorted((k, s, b, n) for k, s, b, n in seen["sent"])
            planned = predicted_traffic(cases[case])
            assert sent == sorted((t.kind, t.group_size, t.nbytes, t.count) for t in planned), case
            counted += 1
    told = f"losses within {losses:.1e}, gradients within {gradients:.1e}"
    record_property("checks", f"{len(found)} plans, {told}; messages of {counted} counted")
