"""Text made to harm: one clear error, little memory, an end."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.stablehlo import import_stablehlo
from importers.stablehlo.numbers import MAX_BYTES
from importers.stablehlo.reading import graph_of, program_of
from ir.graph import OpGraph

DATA = Path(__file__).parents[2] / "data" / "jax"
T = "tensor<4xf32>"


def module(body: str, more: str = "", kind: str = T) -> str:
    """A function of one argument, `%0` of which is returned."""
    return f"""module @m {{
  func.func public @main(%arg0: {kind}) -> {T} {{
    {body}
    return %0 : {T}
  }}
  {more}
}}"""


def graph(text: str) -> OpGraph:
    return graph_of(program_of(text, "sample", "sample.mlir"))


def refused(text: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        graph(text)
    assert caught.value.where
    assert caught.value.fix
    assert len(str(caught.value)) < 2000
    return caught.value


FORWARD = f"%0 = stablehlo.tanh %arg0 : {T}"


def test_the_sample_is_a_program() -> None:
    assert [op.kind for op in graph(module(FORWARD)).ops] == ["Tanh"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "expected a module"),
        ("module @m {", "found the end"),
        ("module @m { }", "expected a module with functions"),
        ("hello", "expected a module"),
        ("module @m { func.func @main() }", "has no body"),
        ("\x00\x01", "is no word of MLIR"),
        (module("%0 = stablehlo.tanh %arg1 : " + T), "%arg1 is read before"),
        (module("%0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>"), "the file says [2]"),
        (module("%0 = stablehlo.add %arg0 : " + T), "its argument 'other' is missing"),
        (module("%0 = stablehlo.transpose %arg0, dims = [9] : (" + T + ") -> " + T), ""),
        (module("%0 = call @f(%arg0) : (" + T + ") -> " + T), "no function @f"),
        (module("%0:99999 = stablehlo.tanh %arg0 : " + T), "results"),
        (module(FORWARD, kind="tensor<?xf32>"), "a size that is open"),
        (module(FORWARD, kind="tensor<4xf17>"), "unknown element type 'f17'"),
        (module(FORWARD, kind="tensor<4x!quant.uniform<i8:f32,1.0>>"), "unknown element type"),
        (module(FORWARD, kind="tensor<99999999999999999999xf32>"), "larger than any tensor"),
        (module(FORWARD, kind="tensor<" + "9999999x" * 9 + "f32>"), "impossible dims"),
        (module("%0 = stablehlo.constant dense<[1.0, 2.0]> : " + T), "does not fit its type"),
        (module('%0 = stablehlo.constant dense<"0x00"> : ' + T), "does not fit its type"),
        (module('%0 = stablehlo.constant dense<"zz"> : ' + T), "does not fit its type"),
        (module("%0 = stablehlo.slice %arg0 [3:9] : (" + T + ") -> " + T), "no part of 4"),
        (module("%0 = stablehlo.iota dim = 7 : " + T), "dimension 7"),
        (module("%0 = stablehlo.reshape %arg0 : (" + T + ") -> tensor<9xf32>"), "other elements"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    found = None
    with suppress(ModelError):
        found = graph(text)
    if what:
        assert what in refused(text).what
    else:
        assert found is not None


def test_deep_nesting_is_refused() -> None:
    deep = "[" * 5000 + "]" * 5000
    assert (
        "nested more than"
        in refused(module(f'%0 = "stablehlo.tanh"(%arg0) {{a = {deep}}} : ({T}) -> {T}')).what
    )
    body = FORWARD
    for _ in range(3000):
        body = f'%0 = "stablehlo.case"(%arg0) ({{ {body} }}) : ({T}) -> {T}'
    assert "nested more than" in refused(module(body)).what
    text = module(FORWARD + " loc(" + "fused[" * 10 + "x(" * 5000 + ")" * 5000 + "]" * 10 + ")")
    assert "nested more than" in refused(text).what


def test_functions_that_call_themselves_are_refused() -> None:
    call = f"%0 = func.call @{{}}(%arg0) : ({T}) -> {T}"
    body = "func.func private @{}(%arg0: " + T + ") -> " + T + " {{ {} return %0 : " + T + " }}"
    more = body.format("f", call.format("g")) + body.format("g", call.format("f"))
    assert "@f calls @g calls @f" in refused(module(call.format("f"), more)).what
    chain = [body.format(f"f{i}", call.format(f"f{i + 1}")) for i in range(500)]
    chain.append(body.format("f500", FORWARD))
    assert "nested more than" in refused(module(call.format("f0"), "\n".join(chain))).what


def test_functions_that_double_each_time_come_to_an_end() -> None:
    twice = (
        "func.func private @f{0}(%arg0: {2}) -> {2} {{ "
        "%1 = call @f{1}(%arg0) : ({2}) -> {2} %0 = call @f{1}(%1) : ({2}) -> {2} "
        "return %0 : {2} }}"
    )
    more = "\n".join(twice.format(i, i + 1, T) for i in range(60))
    last = f"func.func private @f60(%arg0: {T}) -> {T} {{ return %arg0 : {T} }}"
    found = refused(module(f"%0 = call @f0(%arg0) : ({T}) -> {T}", f"{more}\n{last}"))
    assert "operations when it is written out" in found.what


def test_a_loop_without_end_is_refused() -> None:
    loop = f"""%0 = stablehlo.while(%i = %arg0) : {T}
    cond {{
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      stablehlo.return %i : {T}
    }}"""
    assert "rounds" in refused(module(loop)).what


def test_a_loop_whose_end_is_computed_stays_an_operator() -> None:
    loop = f"""%0 = stablehlo.while(%i = %arg0) : {T}
    cond {{
      %s = stablehlo.slice %i [0:1] : ({T}) -> tensor<1xf32>
      %r = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
      %c = stablehlo.is_finite %r : (tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      stablehlo.return %i : {T}
    }}"""
    assert [op.kind for op in graph(module(loop)).ops] == ["stablehlo::while"]


def test_huge_constants_take_no_memory() -> None:
    size = 2**34
    wide = f"tensor<{size}xf32>"
    body = f"""%1 = stablehlo.constant dense<1.0> : {wide}
    %2 = stablehlo.iota dim = 0 : {wide}
    %3 = stablehlo.add %1, %2 : {wide}
    %4 = stablehlo.slice %3 [0:4] : ({wide}) -> {T}
    %0 = stablehlo.add %arg0, %4 : {T}"""
    tracemalloc.start()
    found = graph(module(body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.ops
    assert peak < 2**24


@pytest.mark.fast
def test_numbers_beyond_the_limit_are_left_outside() -> None:
    count = MAX_BYTES // 4 + 1
    wide = f"tensor<{count}xf32>"
    body = f"""%1 = stablehlo.constant dense_resource<big> : {wide}
    %2 = stablehlo.constant dense<"0x{"00" * 64}"> : {wide}
    %3 = stablehlo.add %1, %2 : {wide}
    %4 = stablehlo.slice %3 [0:4] : ({wide}) -> {T}
    %0 = stablehlo.add %arg0, %4 : {T}"""
    assert [op.kind for op in graph(module(body)).ops] == ["Add"]


def test_a_text_cut_off_anywhere_is_refused() -> None:
    text = (DATA / "experts.mlir").read_text()
    end = text.rindex("\n}")
    for cut in range(len(text.split("\n")[0]) + 1, end, 97):
        refused(text[:cut])


@pytest.mark.parametrize(
    "head",
    [
        "{", "[]", "{}", '{"arguments": 3}', '{"arguments": [{"name": "x"}]}',
        '{"arguments": [{"name": "x", "role": "owner"}]}', '{"arguments": []}',
        '{"arguments": [{"name": "", "role": "input"}]}', "[" * 100000,
        '{"arguments": [{"name": "x", "role": "parameter"}], "gradients": {"x": 5}}',
        '{"arguments": [{"name": "x", "role": "parameter"}], "gradients": {"y": 0}}',
    ],
)  # fmt: skip
def test_a_first_line_that_does_not_fit_is_refused(head: str) -> None:
    assert "first line" in refused(f"// planner: {head}\n{module(FORWARD)}").what


def test_arguments_with_one_name_keep_apart() -> None:
    given = ", ".join(f'%arg{i}: {T} loc("x")' for i in range(3000))
    text = f"module @m {{ func.func @main({given}) -> {T} {{ {FORWARD} return %0 : {T} }} }}"
    assert len(graph(text).inputs) == 3000


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"ML\xefR\x00", "bytecode"), (b"\xff\xfe\x00", "no text")],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "m.mlir"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=what):
        import_stablehlo(path)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.mlir"):
        with pytest.raises(ModelError):
            import_stablehlo(path)
    path = tmp_path / "m.mlir"
    path.write_text(module(FORWARD))
    with pytest.raises(ModelError, match="no dynamic dimension 'batch'"):
        import_stablehlo(path, {"batch": 4})
