"""Whole programs: names, roles, scopes, what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.jax_names import short_name
from importers.model_file import import_model_file, model_format
from importers.stablehlo.locations import scope_of
from importers.stablehlo.reading import graph_of, program_facts, program_of
from ir.graph import OpGraph, Role

DATA = Path(__file__).parents[2] / "data" / "jax"
T = "tensor<4xf32>"


def program(body: str, more: str = "", argument: str = "x") -> OpGraph:
    text = f"""module @m {{
      func.func public @main(%arg0: {T} loc("{argument}")) -> ({T} {{jax.result_info = "out"}}) {{
        {body}
        return %0 : {T}
      }}
      {more}
    }}"""
    return graph_of(program_of(text, "sample", "sample.mlir"))


@pytest.mark.parametrize("ending", [".mlir", ".stablehlo", ".MLIR"])
def test_the_ending_tells_the_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"mlp{ending}"
    path.write_bytes((DATA / "mlp.mlir").read_bytes())
    assert import_model_file(path).ops[0].kind == "Transpose"
    facts = model_format(path).facts(path)
    assert facts.producer == "StableHLO"
    assert facts.kinds["stablehlo.dot_general"] == 2
    assert facts.becomes["stablehlo.dot_general"] == ("Transpose", "MatMul")


def test_parameters_are_told_by_the_first_line_or_by_names() -> None:
    told, guessed = (
        import_model_file(DATA / f"{n}.mlir") for n in ("transformer", "transformer_plain")
    )
    assert {t.name for t in told.parameters} == {t.name for t in guessed.parameters}
    assert told.inputs == guessed.inputs == ("x",)


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("params['w']", Role.PARAMETER), ("variables['params']['w']", Role.PARAMETER),
        ("model.layers[0].weight", Role.PARAMETER), ("state.params['w']", Role.PARAMETER),
        ("variables['batch_stats']['mean']", Role.BUFFER), ("state.opt_state[0]", Role.BUFFER),
        ("x", Role.INPUT), ("batch['tokens']", Role.INPUT), ("model", Role.INPUT),
    ],
)  # fmt: skip
def test_names_tell_roles(label: str, role: Role) -> None:
    graph = program(f"%0 = stablehlo.tanh %arg0 : {T}", argument=label)
    assert [t.role for t in graph.tensors.values() if t.role is not Role.ACTIVATION] == [role]


def test_without_names_a_note_says_that_all_are_inputs() -> None:
    graph = program(f"%0 = stablehlo.tanh %arg0 : {T}", argument="")
    assert "all are inputs" in graph.notes[0]


def test_short_names() -> None:
    assert short_name("params['params']['Dense_0']['kernel']") == "Dense_0.kernel"
    assert short_name("state.params['w']") == "w"
    assert short_name("params") == "params"


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("jit(step)/layer_0/jit(relu)/max", "layer_0"),
        ("jit(step)/transpose(jvp(attention))/dot_general", "attention"),
        ("jit(f)/while/body/closed_call/mlp/add", "mlp"),
        ("jit(f)/attention/BTNH,BSNH->BNTS/dot_general", "attention"),
        ("add", ""),
    ],
)
def test_scopes(name: str, scope: str) -> None:
    assert scope_of(name) == scope


def test_operators_are_in_the_scopes_of_the_program() -> None:
    scopes = {op.scope for op in import_model_file(DATA / "transformer.mlir").ops}
    assert {"attention", "mlp"} <= scopes


def test_an_operation_that_nothing_has_keeps_its_name() -> None:
    graph = program(
        f'%0 = stablehlo.custom_call @my_kernel(%arg0) {{a = 3 : i64, b = "c"}} : ({T}) -> {T}'
    )
    assert [op.kind for op in graph.ops] == ["custom_call::my_kernel"]
    graph = program(f"%0 = chlo.bessel_i1e %arg0 : {T} -> {T}")
    assert [op.kind for op in graph.ops] == ["chlo::bessel_i1e"]


def test_facts_count_what_nothing_has(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(
        f"module {{ func.func @main(%a: {T}) -> {T} {{ %0 = chlo.bessel_i1e %a : {T} -> {T} "
        f"return %0 : {T} }} }}"
    )
    assert program_facts(path).kinds["chlo::bessel_i1e"] == 1


def test_composites_are_what_they_are_called_or_their_parts() -> None:
    body = (
        '%0 = stablehlo.composite "{}" %arg0 {{composite_attributes = {{}}, decomposition = @f}} : '
        f"({T}) -> {T}"
    )
    more = f"func.func private @f(%arg0: {T}) -> {T} {{ %0 = stablehlo.sine %arg0 : {T} return %0 : {T} }}"  # noqa: E501
    assert [op.kind for op in program(body.format("chlo.erf"), more).ops] == ["Erf"]
    assert [op.kind for op in program(body.format("my.sine"), more).ops] == ["Sin"]


def test_marks_of_shardings_are_no_operators() -> None:
    body = f"""%1 = stablehlo.custom_call @Sharding(%arg0) {{mhlo.sharding = "{{}}"}} : ({T}) -> {T}
    %2 = sdy.sharding_constraint %1 <@mesh, [{{"x"}}]> : {T}
    %0 = stablehlo.tanh %2 : {T}"""
    graph = program(body, 'sdy.mesh @mesh = <["x"=2]>')
    assert [op.kind for op in graph.ops] == ["Tanh"]


def test_results_are_called_as_the_function_returns_them() -> None:
    assert program(f"%0 = stablehlo.tanh %arg0 : {T}").outputs == ("out",)


def test_a_result_that_is_an_argument_is_copied() -> None:
    graph = program(f"%1 = stablehlo.tanh %arg0 : {T} %0 = stablehlo.reshape %arg0 : ({T}) -> {T}")
    assert [op.kind for op in graph.ops] == ["Identity"]


def test_images_with_channels_last_are_planned_as_with_channels_first() -> None:
    image, kernel = "tensor<2x8x8x3xf32>", "tensor<3x3x3x3xf32>"
    step = (
        "stablehlo.convolution({}, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {{stride = [1, 1], pad = [[1, 1], [1, 1]]}} "
        f"{{{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}}} : ({image}, {kernel}) "
        f"-> {image}"
    )
    text = f"""module {{ func.func @main(%x: {image}, %k: {kernel}) -> {image} {{
      %0 = {step.format("%x")}
      %1 = stablehlo.tanh %0 : {image}
      %2 = {step.format("%1")}
      return %2 : {image}
    }} }}"""
    kinds = [op.kind for op in graph_of(program_of(text, "m", "m.mlir")).ops]
    assert kinds == ["Transpose", "Transpose", "Conv", "Tanh", "Conv", "Transpose"]


def test_a_jaxpr_is_refused_with_the_way_to_write_stablehlo(tmp_path: Path) -> None:
    path = tmp_path / "model.jaxpr"
    path.write_text("{ lambda ; a:f32[8]. let b:f32[8] = exp a in (b,) }")
    with pytest.raises(ModelError, match=r"jax\.jit\(f\)\.lower") as refused:
        import_model_file(path)
    assert "model.jaxpr is a jaxpr" in refused.value.what
