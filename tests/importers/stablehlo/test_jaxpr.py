"""Jaxprs as text: what they may say, and what is refused with one clear message."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.model_file import import_model_file
from importers.stablehlo.jaxpr import is_jaxpr, module_of
from importers.stablehlo.jaxpr.parsing import MAX_DEPTH, parsed
from importers.stablehlo.reading import graph_of, program_of
from ir.graph import OpGraph

DATA = Path(__file__).parents[2] / "data" / "jax"
SCAN = """{{ lambda ; a:f32[4,8,8] b:f32[2,8]. let
    c:f32[2,8] = scan[
      jaxpr={{ lambda ; d:f32[2,8] e:f32[8,8]. let
          f:f32[2,8] = dot_general[dimension_numbers=(([1], [0]), ([], []))] d e
        in (f,) }}
      length={length}
      num_carry=1
      num_consts=0
      reverse=False
    ] b a
  in (c,) }}"""


def graph(text: str) -> OpGraph:
    return graph_of(program_of(text, "case", "case"))


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_a_file_is_known_by_its_name_and_by_its_text(name: str, tmp_path: Path) -> None:
    text = (DATA / f"{name}.jaxpr").read_text()
    assert is_jaxpr(text)
    assert not is_jaxpr((DATA / f"{name}.mlir").read_text())
    elsewhere = tmp_path / "program.mlir"
    elsewhere.write_text(text)
    assert len(import_model_file(elsewhere).ops) == len(
        import_model_file(DATA / f"{name}.jaxpr").ops
    )


def test_values_may_be_called_like_numbers_and_like_words_of_the_text() -> None:
    text = (
        "{ lambda ; inf:f32[2,3] nan:f32[2,3]. let\n in:f32[2,3] = add inf nan\n"
        " inf2:f32[2,3] = max in -inf:f32[]\n nan3:f32[2,3] = min inf2 inf:f32[]\n in (nan3,) }"
    )
    assert len(parsed(text, "case").main.equations) == 3


def test_a_scan_is_written_out() -> None:
    kinds = [op.kind for op in graph(SCAN.format(length=4)).ops]
    assert kinds.count("MatMul") == 4


def test_a_primitive_that_nobody_knows_keeps_its_name() -> None:
    text = "{ lambda ; a:f32[8]. let b:f32[8] = magic[depth=3 how=<object at 0xXX>] a in (b,) }"
    assert [op.kind for op in graph(text).ops] == ["jax::magic"]


def test_what_has_no_result_is_passed_over() -> None:
    text = (
        "{ lambda ; a:f32[8]. let\n debug_callback[callback=<function f at 0xXX> ordered=False] a\n"
        " b:f32[8] = exp a\n in (b,) }"
    )
    assert [op.kind for op in graph(text).ops] == ["Exp"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ lambda ; a:f32[8]. let b:f32[8] = add a c in (b,) }", "c is read before it is made"),
        ("{ lambda ; a:q9[8]. let  in (a,) }", "unknown element type 'q9'"),
        ("{ lambda ; a:f32[n]. let  in (a,) }", "no word|expected a type"),
        ("{ lambda ; a:f32[8]. let b:f32[8] = exp a in (b,)", "the end of the text"),
        ("{ lambda ; a:f32[8]. let b:f32[8] = jit[name=f jaxpr=g] a in (b,) }", "no jaxpr"),
        ("{ lambda ; a:f32[8,8]. let b:f32[8,8] = transpose a in (b,) }", "no list of numbers"),
        ("{ lambda ; a:f32[8]. let b:f32[4] = exp a in (b,) }", "does not repeat to"),
        ("{ lambda ; a:f32[8]. let in (a,) } }", "expected the end"),
        (SCAN.format(length=10**9), "1024 at most"),
        (SCAN.format(length=5), "longer than what it reads"),
    ],
)
def test_a_fault_is_named(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as refused:
        graph(text)
    assert "case" in str(refused.value)


@pytest.mark.parametrize("piece", ["(", "{ lambda ; . let a:f32[] = jit[jaxpr="])
def test_deep_nesting_is_refused(piece: str) -> None:
    start = "{ lambda ; a:f32[8]. let b:f32[8] = exp[x="
    with pytest.raises(ModelError, match="nested more than"):
        module_of(start + piece * (20 * MAX_DEPTH), "case")


def test_a_jaxpr_that_calls_itself_is_refused() -> None:
    text = (
        "let f = { lambda ; a:f32[8]. let b:f32[8] = jit[name=f jaxpr=f] a in (b,) } in\n"
        "{ lambda ; a:f32[8]. let b:f32[8] = jit[name=f jaxpr=f] a in (b,) }"
    )
    with pytest.raises(ModelError, match="call each other without end"):
        graph(text)
