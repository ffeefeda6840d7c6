"""Sixty terms that engineers know from other documents stand where they would look for them."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS

pytestmark = pytest.mark.fast

# Each term with the page on which a user meets it; the glossary links there.
TERMS = {
    "megatron-lm": {
        "data parallelism": "concepts.md",
        "tensor parallelism": "concepts.md",
        "sequence parallelism": "pipelines.md",
        "context parallelism": "pipelines.md",
        "expert parallelism": "step.md",
        "mixture of experts": "concepts.md",
        "capacity factor": "step.md",
        "pipeline parallelism": "pipelines.md",
        "stage": "pipelines.md",
        "virtual pipeline": "pipelines.md",
        "multi-token prediction": "step.md",
        "global batch": "reading-a-plan.md",
        "micro-batch": "pipelines.md",
        "1F1B": "simulation.md",
        "GPipe": "simulation.md",
        "zero-bubble": "simulation.md",
        "DualPipe": "simulation.md",
        "pipeline bubble": "simulation.md",
        "in flight": "pipelines.md",
        "recomputation": "pipelines.md",
        "MFU": "simulation.md",
        "straggler": "simulation.md",
        "all-to-all": "collectives.md",
    },
    "deepspeed": {
        "ZeRO-1": "pipelines.md",
        "ZeRO-2": "step.md",
        "ZeRO-3": "step.md",
        "Ulysses": "explain.md",
        "offload": "pipelines.md",
        "gradient accumulation": "simulation.md",
        "overlap": "step.md",
        "exposed communication": "step.md",
        "prefetch": "simulation.md",
        "bucket": "simulation.md",
        "optimizer state": "memory.md",
        "peak memory": "memory.md",
    },
    "pytorch": {
        "FSDP": "step.md",
        "hybrid sharding": "step.md",
        "ring attention": "pipelines.md",
        "host overhead": "step.md",
        "master copy": "memory.md",
        "shard": "concepts.md",
        "replicated": "extending.md",
        "partial": "concepts.md",
        "DeviceMesh": "formats.md",
        "DTensor": "judges.md",
        "PartitionSpec": "formats.md",
        "all-gather": "collectives.md",
        "reduce-scatter": "collectives.md",
        "all-reduce": "collectives.md",
        "rank": "rank-tables.md",
        "distributed checkpoint": "checkpoints.md",
    },
    "mindspore": {
        "device matrix": "mindspore-cases.md",
        "tensor map": "formats.md",
        "in_strategy": "concepts.md",
        "dataset_strategy": "mindspore.md",
        "semi_auto_parallel": "mindspore-strategies.md",
        "sharding_propagation": "solvers.md",
        "recursive_programming": "mindspore-strategies.md",
        "redistribution": "step.md",
        "rank table": "rank-tables.md",
    },
}
PAIRS = [pair for terms in TERMS.values() for pair in terms.items()]
ENTRY = re.compile(r"^\| \*\*(.+?)\*\* \|.*\| \[[\w-]+\]\(([\w-]+\.md)[#\w-]*\) \|$", re.MULTILINE)


def test_there_are_sixty_and_the_glossary_has_no_other() -> None:
    assert len(dict(PAIRS)) == 60
    entries = ENTRY.findall((DOCS / "glossary.md").read_text("utf-8"))
    assert sorted(entries) == sorted(PAIRS)


@pytest.mark.fast(every=True)
@pytest.mark.parametrize(("term", "page"), PAIRS)
def test_a_term_stands_on_the_page_where_a_user_meets_it(term: str, page: str) -> None:
    spelled = re.escape(term).replace(r"tensor\ map", r"tensor[_ ]map").replace(r"\-", r"[- ]")
    text = re.sub(r"\s+", " ", (DOCS / page).read_text("utf-8"))
    assert re.search(rf"\b{spelled}", text, re.IGNORECASE) is not None
