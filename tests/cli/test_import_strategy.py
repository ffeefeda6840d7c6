"""`planner import-strategy`: MindSpore's strategy files become plans that other commands take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from ir.plan_file import read_plan
from planner.repricing.mindspore.checkpoint import checkpoint_only_s
from planner.requests.search_options import REST

Planner = Callable[..., Any]
MINDIR = Path(__file__).parents[1] / "data" / "mindir" / "mlp.mindir"
SEARCH = ("--devices", "8", "--attention", "decomposed")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with its files."""
    from typer.testing import CliRunner  # noqa: PLC0415

    from cli.main import app  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("searched")
    plan, file = folder / "plan.json", folder / "operators.json"
    for arguments in (
        ["search", str(MINDIR), *SEARCH, "-o", str(folder)],
        ["export", str(plan), "--format", "mindspore-operators", "--set", f"model={MINDIR}",
         "--set", "scope=network-Net", "-o", str(file)],
        ["export", str(plan), "--format", "mindspore-groups", "--set", "rank=3", "-o",
         str(folder / "groups.pb")],
    ):  # fmt: skip
        assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder


@pytest.mark.fast
def test_a_strategy_for_every_operator_gives_the_plan_again(
    searched: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "deep" / "back.json"
    run = planner("import-strategy", searched / "operators.json", MINDIR, *SEARCH, "-o", target)
    assert (run.code, run.out) == (0, f"{target}\n")
    assert planner("diff", searched / "plan.json", target, "--json").json["equal"]


def test_other_commands_take_the_plan(searched: Path, planner: Planner, tmp_path: Path) -> None:
    target = tmp_path / "back.json"
    run = planner(
        "import-strategy", searched / "strategy.ckpt", MINDIR, *SEARCH, "-o", target, "--json"
    )
    assert run.json["status"] == "ok"
    assert any("strategy.ckpt says" in note for note in read_plan(target).notes)
    for command in (
        ("show", target),
        ("simulate", target),
        ("export", target, "-o", tmp_path / "s.ckpt"),
    ):
        assert planner(*command).code == 0
    assert planner("verify", MINDIR, target).code == 0


def test_the_rest_by_batch_takes_what_the_export_says_of_a_checkpoint_alone(
    searched: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "back.json"
    planner("import-strategy", searched / "strategy.ckpt", MINDIR, *SEARCH, "-o", target)
    alone_s = checkpoint_only_s(read_plan(searched / "plan.json"))
    assert read_plan(target).estimate.step_time_s == pytest.approx(alone_s)


def test_a_note_says_where_attention_is_taken_apart(planner: Planner, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 20]>
    net (float[8, 4, 16, 32] x) => (float[8, 4, 16, 32] y)
    <float[32, 32] q = ["location": "w"], float[32, 32] k = ["location": "w"]> {
        a = MatMul(x, q) b = MatMul(x, k) t = Transpose<perm=[0, 1, 3, 2]>(b)
        s = MatMul(a, t) p = Softmax<axis=-1>(s) y = MatMul(p, x)
    }"""
    model, target = tmp_path / "net.onnx", tmp_path / "back.json"
    model.write_bytes(parser.parse_model(text).SerializeToString())
    assert planner("search", model, "--devices", "4", "-o", tmp_path).code == 0
    call = ("import-strategy", tmp_path / "strategy.ckpt", model, "--devices", "4", "-o", target)
    assert "--attention fused" in planner(*call).err
    assert any("--attention fused" in note for note in read_plan(target).notes)
    assert "--attention fused" not in planner(*call, "--attention", "fused").err
    assert not any("--attention fused" in note for note in read_plan(target).notes)


def test_a_plan_that_does_not_fit_leaves_nothing(
    searched: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "back.json"
    run = planner(
        "import-strategy",
        searched / "strategy.ckpt",
        MINDIR,
        *SEARCH,
        "--memory",
        "1MiB",
        "-o",
        target,
    )
    assert run.code == 1
    assert "error: " in run.err
    assert not target.exists()


def test_groups_are_written(searched: Path) -> None:
    from exporters.mindspore.groups import from_protobuf  # noqa: PLC0415

    found = from_protobuf((searched / "groups.pb").read_bytes())
    assert 3 in found.same
    assert all(3 in group.ranks for group in found.groups)


@pytest.mark.parametrize("rest", list(REST))
def test_operators_that_the_file_leaves_out(
    rest: str, searched: Path, planner: Planner, tmp_path: Path
) -> None:
    content = json.loads((searched / "operators.json").read_text())
    items = content["parallel_strategy_item"]
    key = next(k for k in items if "/MatMul-" in k)
    content["parallel_strategy_item"] = {key: {"parallel_strategy": [[2, 1], [4, 1]], "stage": 0}}
    few, target = tmp_path / "few.json", tmp_path / "back.json"
    few.write_text(json.dumps(content))
    run = planner("import-strategy", few, MINDIR, *SEARCH, "--rest", rest, "-o", target)
    assert run.code == 0
    assert "MindSpore refuses the file" in run.err
    name = key.replace("network-Net/", "")
    found = {op.name: op for op in read_plan(target).operators}
    assert [len([a for dim in t.dims for a in dim]) for t in found[name].inputs if t] == [1, 2]


@pytest.mark.parametrize(
    ("file", "model", "words"),
    [
        ("operators.json", "mlp.onnx", "which only a MindIR has"),
        ("groups.pb", "net.mindir", "communication groups"),
        ("cut.json", "net.mindir", "not JSON"),
        ("missing.ckpt", "net.mindir", "cannot be read"),
        ("foreign.json", "net.mindir", "none of its 1 keys"),
        ("operators.json", "newer.mindir", "is MindIR version"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(
    file: str, model: str, words: str, searched: Path, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    sources = {name: searched / name for name in ("operators.json", "groups.pb")}
    whole = sources["operators.json"].read_text()
    for name, text in (("cut.json", whole[:-9]), ("foreign.json", _renamed(whole))):
        sources[name] = tmp_path / "in" / name
        sources[name].write_text(text)
    newer = tmp_path / "in" / "newer.mindir"
    newer.write_bytes(MINDIR.read_bytes() + bytes([13 << 3, 99]))
    models = {"mlp.onnx": mlp, "net.mindir": MINDIR, "newer.mindir": newer}
    before = sorted(tmp_path.rglob("*"))
    path = sources.get(file, tmp_path / file)
    run = planner("import-strategy", path, models[model], *SEARCH, "-o", tmp_path / "plan.json")
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert sorted(tmp_path.rglob("*")) == before


def _renamed(text: str) -> str:
    items = json.loads(text)["parallel_strategy_item"]
    first = next(k for k in items if "/MatMul-" in k)
    return json.dumps({"parallel_strategy_item": {f"{first}99": items[first]}})


def test_an_old_plan_is_not_overwritten_by_a_fault(
    searched: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "plan.json"
    target.write_text("kept")
    run = planner("import-strategy", searched / "groups.pb", MINDIR, *SEARCH, "-o", target)
    assert run.code == 2
    assert target.read_text() == "kept"


def test_operator_strategies_of_a_file_from_elsewhere_need_the_model(
    searched: Path, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    target, form = tmp_path / "a.json", ("--format", "mindspore-operators", "-o")
    assert planner("export", searched / "plan.json", *form, target).code == 0
    target.unlink()
    planner("search", mlp, "--devices", 8, "-o", tmp_path / "other")
    run = planner("export", tmp_path / "other" / "plan.json", *form, target)
    assert run.code == 2
    assert "--set model=net.mindir" in run.err
    assert not target.exists()


@pytest.mark.parametrize("rest", list(REST))
def test_search_with_pins_plans_the_rest_as_a_file_of_the_same_strategies(
    rest: str, searched: Path, planner: Planner, tmp_path: Path
) -> None:
    content = json.loads((searched / "strategy.json").read_text())
    content["parallel_strategy_item"] = {
        "MatMul_up.weight": {"parallel_strategy": [[2, 1], [4, 1]], "stage": 0}
    }
    content["parallel_layout_item"] = {}
    file, theirs = tmp_path / "few.json", tmp_path / "theirs.json"
    file.write_text(json.dumps(content))
    asked = ("--rest", rest)
    assert planner("import-strategy", file, MINDIR, *SEARCH, *asked, "-o", theirs).code == 0
    pin = ("--pin", "MatMul_up.weight=((2,1),(4,1))")
    ours = planner("search", MINDIR, *SEARCH, *pin, *asked, "-o", tmp_path / "ours")
    assert ours.code == 0, ours.err
    assert planner("diff", tmp_path / "ours" / "plan.json", theirs, "--json").json["equal"]


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (("--rest", "semi"), "unknown way 'semi'", "semi-auto"),
        (("--rest", "propagation", "--solver", "ilp"), "the same option twice", "leave --rest"),
        (("--rest", "semi-auto", "--global-batch", "64"), "by batch over all devices", "--batch"),
    ],
)
def test_a_rest_that_cannot_be_is_refused(
    options: tuple[str, ...], what: str, fix: str, planner: Planner
) -> None:
    run = planner("search", MINDIR, *SEARCH, *options)
    assert (run.code, run.out) == (2, "")
    assert what in run.err
    assert "--rest" in run.err
    assert fix in run.err
