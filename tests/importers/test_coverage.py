"""The coverage of the catalogue is read off what the importer makes of a node of each kind."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import onnx
import pytest

import ir.ops
from importers import onnx_images, onnx_moves, onnx_statistics
from importers.onnx import import_model, kinds_in
from importers.onnx_attributes import converted_kinds
from importers.onnx_coverage import (
    KindCoverage,
    Treatment,
    by_family,
    operator_coverage,
)
from importers.onnx_foreign import MICROSOFT
from importers.onnx_node import ADOPTED
from importers.onnx_samples import foreign_sample, sample
from ir.ops import OpView, catalogue, lookup

FOUND = {each.kind: each for each in operator_coverage()}
STANDARD = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}


def coverage(kind: str) -> KindCoverage:
    return FOUND[kind]


def test_every_kind_is_listed_once() -> None:
    kinds = [each.kind for each in operator_coverage()]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) >= STANDARD
    adopted = {
        f"{MICROSOFT}::{kind}" for kind in (*ADOPTED[MICROSOFT], *converted_kinds(MICROSOFT))
    }
    assert adopted <= set(kinds)
    short = {each.kind.rpartition("::")[2] for each in operator_coverage() if each.known}
    assert short >= set(catalogue())


@pytest.mark.parametrize("kind", sorted(FOUND))
def test_what_is_said_of_a_kind_hangs_together(kind: str) -> None:
    each = coverage(kind)
    short = kind.rpartition("::")[2]
    if each.treatment is Treatment.RULE:
        assert each.family
        assert each.meaning
        assert each.gradient
        assert short in catalogue()
    if each.treatment is Treatment.CONVERTED:
        assert each.becomes, "show a node of this kind"
        assert set(each.becomes) <= set(catalogue())
    if each.treatment in {Treatment.REPEATED, Treatment.REFUSED}:
        assert not each.known
        assert not each.rule
        assert kind not in catalogue()
    assert (each.splits is None) == (not each.rule and not each.becomes)


@pytest.mark.parametrize(
    "kind", [k for k, e in catalogue().items() if MICROSOFT not in (e.sample or MICROSOFT)]
)
def test_a_written_sample_has_one_node_of_its_kind(kind: str) -> None:
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == kind]
    last = max((s for s in schemas if not s.deprecated), key=lambda s: s.since_version)
    model = sample(last, onnx.defs.onnx_opset_version())
    assert model is not None
    assert kinds_in(model) == {kind: 1}


@pytest.mark.parametrize("kind", sorted(ADOPTED[MICROSOFT]))
def test_an_adopted_kind_is_the_catalogues_own(kind: str) -> None:
    each = coverage(f"{MICROSOFT}::{kind}")
    assert (each.treatment, each.becomes) == (Treatment.RULE, ())
    graph = import_model(foreign_sample(kind), kind)
    assert [op.kind for op in graph.ops] == [kind]


@pytest.mark.parametrize(
    ("kind", "since", "family", "rule", "gradient"),
    [
        ("MatMul", 1, "contraction", "a b c, c d -> a b d", "all"),
        ("Gather", 1, "indexing", "a b, c d -> c d b", "0"),
        ("Equal", 1, "elementwise", "a b c, a b c -> a b c", "none"),
        ("Where", 9, "elementwise", "a b c, a b c, c -> a b c", "1, 2"),
        ("Softmax", 1, "reduction", "a b c -> a b c", "all"),
        ("Reshape", 1, "shape", "a b (c=3 d) -> a b c d", "0"),
        ("LayerNormalization", 17, "normalisation", "a b c, c, c -> a b c", "0, 1, 2"),
    ],
)
def test_kinds_that_everybody_knows(
    kind: str, since: int, family: str, rule: str, gradient: str
) -> None:
    each = coverage(kind)
    assert (each.since, each.family, each.rule, each.gradient) == (since, family, rule, gradient)
    assert each.splits


def test_what_a_conversion_makes_is_seen() -> None:
    assert coverage("Gemm").becomes == ("MatMul", "Add")
    assert coverage("Gemm").family == "contraction, elementwise"
    assert coverage("CastLike").becomes == ("Cast",)
    assert coverage("Gemm").splits


def test_messages_inside_and_masks_are_told() -> None:
    assert coverage("Softmax").remarks == ("c: reduced inside, 2 x forward, 1 x backward",)
    assert coverage("Gather").remarks == ("a: looked up under a mask",)


def test_what_onnx_gave_up_ends_somewhere() -> None:
    assert (coverage("Upsample").since, coverage("Upsample").until) == (1, 10)
    assert coverage("MatMul").until is None


def test_the_rest_is_repeated_or_refused() -> None:
    assert coverage("Loop").treatment is Treatment.REPEATED
    assert coverage("SequenceConstruct").treatment is Treatment.REFUSED
    assert coverage("SequenceAt").meaning == "sequences and optional values are no tensors"
    assert "constant condition" in coverage("If").meaning


@pytest.mark.fast
def test_families_are_the_files_of_the_catalogue() -> None:
    families = by_family(operator_coverage())
    entries = catalogue().values()
    assert set(families) == {entry.family for entry in entries}
    files = {path.stem for path in Path(ir.ops.__file__).parent.glob("*.py")}
    assert set(families) == files - {"__init__", "registry", "spelling", "windows", "verification"}


def test_the_rule_shown_is_the_rule_of_the_sample() -> None:
    model = foreign_sample("BiasGelu")
    graph = import_model(model, "sample")
    rule = lookup("BiasGelu").rule(OpView(graph.ops[0], graph))
    assert rule.splittable == (0, 1, 2)
    assert coverage(f"{MICROSOFT}::BiasGelu").rule == "a b c, c -> a b c"


@pytest.mark.parametrize("module", [onnx_images, onnx_moves, onnx_statistics])
def test_a_converter_bears_the_name_of_what_computes_a_kind(module: ModuleType) -> None:
    public = {n: each for n, each in vars(module).items() if not n.startswith("_")}
    own = [n for n, each in public.items() if getattr(each, "__module__", "") == module.__name__]
    entries = {entry.semantics for entry in catalogue().values()}
    assert set(own) - {"windows"} <= entries
