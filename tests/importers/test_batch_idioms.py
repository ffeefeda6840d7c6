"""Another batch for the idioms of PyTorch code: the graph is the one that is exported with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from importers.onnx import import_onnx
from ir.batch import BatchError, with_batch
from ir.canonical import canonical_digest
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.ops import check_operators

pytestmark = pytest.mark.fast

FOLDER = Path(__file__).parents[1] / "data" / "torch" / "batch"
CASES = sorted(path.name.removesuffix(".2.onnx.gz") for path in FOLDER.glob("*.2.onnx.gz"))
SMALL, LARGE = 2, 6
PAIRWISE = "has the batch in two dimensions"
FIXED = "names samples by number: how many there would be in another batch is not known"
REFUSED: Mapping[str, str] = {
    "all_rows_together": PAIRWISE,
    "identity_of_batch": PAIRWISE,
    "similar_samples": PAIRWISE,
    "beside_first": FIXED,
    "chunks_changed.script": FIXED,
    "differences": FIXED,
    "rolled_batch": FIXED,
    "one_after_another": "has operators of its own for each sample",
}
"""What cannot be followed, and why."""
AMBIGUOUS: Mapping[str, str] = {
    "chunks_changed.dynamo": "halves of two samples are single samples",
    "deviation_of_groups": "two groups may be two samples",
    "neighbours": "pairs of neighbours may be all samples",
}
"""What cannot be told at a batch of two, and why."""


@cache
def exported(case: str, batch: int) -> OpGraph:
    return import_onnx(FOLDER / f"{case}.{batch}.onnx.gz")


def is_in(case: str, cases: Mapping[str, str]) -> bool:
    return case in cases or case.split(".", maxsplit=1)[0] in cases


LOST = [case for case in CASES if is_in(case, REFUSED)]
FOLLOWED = [case for case in CASES if not is_in(case, REFUSED)]


@pytest.mark.parametrize("case", [c for c in FOLLOWED if not is_in(c, AMBIGUOUS)])
def test_the_batch_set_is_the_batch_exported(case: str) -> None:
    found = with_batch(exported(case, SMALL), LARGE)
    found.validate()
    check_operators(found)
    assert canonical_digest(found) == canonical_digest(exported(case, LARGE))


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_smaller_batch_is_the_batch_exported(case: str) -> None:
    """In normal form: an exporter leaves out what moves a batch that is nearly gone."""
    found = normalise(with_batch(exported(case, LARGE), SMALL))
    assert canonical_digest(found) == canonical_digest(normalise(exported(case, SMALL)))


@pytest.mark.parametrize("case", [c for c in CASES if is_in(c, AMBIGUOUS)])
def test_what_cannot_be_told_at_a_batch_of_two_names_the_operator(case: str) -> None:
    assert_refused(exported(case, SMALL), LARGE)


@pytest.mark.parametrize("case", LOST)
def test_what_cannot_be_followed_names_the_operator(case: str) -> None:
    assert_refused(exported(case, SMALL), LARGE)
    assert_refused(exported(case, LARGE), SMALL)


def assert_refused(graph: OpGraph, batch: int) -> None:
    with pytest.raises(BatchError, match="fix: export the model with") as caught:
        with_batch(graph, batch)
    assert any(f"{op.name} ({op.kind})" in str(caught.value) for op in graph.ops)


def test_most_idioms_are_followed() -> None:
    names = {case.split(".")[0] for case in CASES}
    assert len(names) > 80
    assert len({n for n in names if n in REFUSED or n in AMBIGUOUS}) < 10
