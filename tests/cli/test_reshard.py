"""`planner reshard`: checkpoints from one layout to another, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exporters.mindspore import strategy as mindspore_strategy
from exporters.mindspore.strategy import ParameterLayout, StrategyCheckpoint, StrategyItem
from ir.plan_file import plan_to_json, read_plan
from ir.plan_slicing import plan_slicing
from ir.slicing import Grid, Slicing, whole_slicing
from planner.request import SearchRequest
from planner.search import search
from tests.cli.conftest import Run
from tests.executors.checkpoint.files import Arrays, assert_same, read_ranks, write
from tests.executors.checkpoint.moves import cut, saved, slicing
from tests.exporters.small_networks import language_model
from topology.catalogue import named_cluster

W = np.arange(32 * 24, dtype=np.float32).reshape(32, 24)
B = np.arange(24, dtype=np.float16)
WHOLE: Arrays = {"w": W, "b": B, "step": np.array(4, np.int64)}
OLD = slicing({"w": Grid((4, 2), ((0,), (1,))), "b": Grid((4, 2), ((1,),))})
NEW = slicing({"w": Grid((2, 2), ((1,), (0,))), "b": Grid((2, 2), ((),))})


def strategy(path: Path, layout: Slicing, names: tuple[str, ...] = ()) -> Path:
    """The strategy file of MindSpore that says what a slicing does."""
    layouts = []
    for name, (grid,) in layout.grids.items():
        last = len(grid.sizes) - 1
        cuts = tuple(last - axes[0] if axes else -1 for axes in grid.dims)
        layouts.append(ParameterLayout(name, grid.sizes, cuts, WHOLE[name].shape))
    item = StrategyItem("MatMul_w", 0, ((1, 1), (1, 1)))
    mindspore_strategy.write(path, StrategyCheckpoint(1, (item,), tuple(layouts)))
    return path


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a command that has just begun; here it is that of all tests before."""
    monkeypatch.setattr("executors.checkpoint.moving._peak_bytes", lambda: 100 << 20)


@pytest.fixture
def job(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A checkpoint, its strategy file, and that of another job."""
    given = saved(tmp_path / "in", WHOLE, OLD, ".ckpt")
    return given, strategy(tmp_path / "old.ckpt", OLD), strategy(tmp_path / "new.json", NEW)


def assert_slices(folder: Path, layout: Slicing, whole: Arrays = WHOLE) -> None:
    for found, wanted in zip(read_ranks(folder), cut(whole, layout), strict=True):
        assert_same(found, wanted)


def test_slices_for_another_layout(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, old, new = job
    out = tmp_path / "out"
    run = planner("reshard", "--in", source, "--from", old, "--to", new, "--out", out)
    assert run.code == 0, run.err
    assert "3 tensors in 4 files" in run.out
    assert_slices(out, NEW)
    assert (out / "rank_3" / "checkpoint.ckpt").exists()


def test_one_file_and_slices_of_it_again(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, old, _ = job
    one, back = tmp_path / "one", tmp_path / "back"
    merged = planner(
        "reshard", "--in", source, "--from", old, "--single", "--out", one,
        "--format", "safetensors", "--file-name", "model", "--json",
    )  # fmt: skip
    assert merged.json["files"] == ["model.safetensors"]
    assert_slices(one, whole_slicing())
    split = planner("reshard", "--in", one, "--to", old, "--out", back, "--format", "ckpt")
    assert split.code == 0, split.err
    for first, second in zip(read_ranks(source), read_ranks(back), strict=True):
        assert_same(second, first)


def test_a_second_time_nothing_is_done(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, old, _ = job
    words = ("reshard", "--in", source, "--from", old, "--like", "0-3", "--out", tmp_path / "out")
    assert planner(*words, "--json").json["written_bytes"] > 0
    assert planner(*words, "--json").json["written_bytes"] == 0
    other = planner("reshard", "--in", source, "--from", old, "--single", "--out", tmp_path / "out")
    assert other.code == 2
    assert "something is already there" in other.err


def test_a_dry_run_says_what_would_move_and_writes_nothing(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, old, new = job
    words = ("reshard", "--in", source, "--from", old, "--to", new, "--dry-run")
    before = sorted(tmp_path.rglob("*"))
    facts = planner(*words, "--cluster", "atlas-800t-a2", "--json").json
    assert sorted(tmp_path.rglob("*")) == before
    # Of w, ranks 0 and 1 of 4 have half of their quarter (of 1/8) or none; b is whole on four.
    wanted = cut(WHOLE, NEW)
    own = cut({"w": np.arange(W.size).reshape(W.shape), "b": np.arange(B.size)}, OLD)
    need = cut({"w": np.arange(W.size).reshape(W.shape), "b": np.arange(B.size)}, NEW)
    missing = sum(
        len(set(need[r][n].flat) - set(own[r][n].flat)) * WHOLE[n].itemsize
        for r in range(4) for n in ("w", "b")
    )  # fmt: skip
    assert facts["moved_bytes"] == missing
    assert sum(nbytes for _, _, nbytes in facts["messages"]) == missing
    assert 0 < facts["bound_s"] <= facts["time_s"]
    assert set(facts["rank_list"]) == {str(r) for r in range(len(wanted))}
    text = planner(*words)
    assert "no machine is named" in text.out
    assert "source ranks" in text.out


@pytest.mark.fast
def test_the_ranks_of_the_list_suffice(
    planner: Callable[..., Run], job: tuple[Path, Path, Path]
) -> None:
    source, old, new = job
    words = ("reshard", "--in", source, "--from", old, "--to", new, "--dry-run", "--json")
    for rank, sources in planner(*words).json["rank_list"].items():
        for name, grids in NEW.grids.items():
            marks = np.arange(WHOLE[name].size).reshape(WHOLE[name].shape)
            held = [set(cut({name: marks}, OLD)[r][name].flat) for r in sources]
            needed = set(cut({name: marks}, slicing({name: grids}))[int(rank)][name].flat)
            assert needed <= set().union(*held)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model: trained on 16 devices and on 8, and served on 4."""
    folder = tmp_path_factory.mktemp("plans")
    requests = {
        "train16": (16, SearchRequest(dtype="fp32")),
        "train8": (8, SearchRequest(dtype="fp32")),
        "serve4": (4, SearchRequest(dtype="fp32", training=False)),
    }
    out = {}
    for name, (devices, request) in requests.items():
        plan = search(language_model(), named_cluster("atlas-800-9000", devices), request)
        out[name] = folder / f"{name}.json"
        out[name].write_text(plan_to_json(plan))
    return out


def test_from_training_to_serving_with_plans(
    planner: Callable[..., Run], plans: dict[str, Path], tmp_path: Path
) -> None:
    old, new = (plan_slicing(read_plan(plans[n])) for n in ("train16", "serve4"))
    draw = np.random.default_rng(1)
    whole = {n: draw.integers(0, 9, dims).astype(np.float32) for n, dims in old.dims.items()}
    states = {f"adam_m.{name}": array + 1 for name, array in whole.items()}
    moments = {f"adam_m.{name}": grids for name, grids in old.grids.items()}
    layout = replace(old, grids={**old.grids, **moments})
    source = saved(tmp_path / "in", whole | states, layout, ".safetensors")
    out = tmp_path / "out"
    run = planner(
        "reshard", "--in", source, "--from", plans["train16"], "--to", plans["serve4"],
        "--weights-only", "--out", out,
    )  # fmt: skip
    assert run.code == 0, run.err
    assert_slices(out, new, whole)


def test_the_cost_of_going_on_with_another_plan(
    planner: Callable[..., Run], plans: dict[str, Path]
) -> None:
    words = ("reshard", "--from", plans["train16"], "--to", plans["train8"], "--dry-run")
    facts = planner(*words, "--lost", "8-15", "--json").json
    parameters = plan_slicing(read_plan(plans["train8"]))
    held = 12 * sum(
        np.prod([end - first for first, end in grid.box(rank, parameters.dims[name])])
        for name, (grid,) in parameters.grids.items()
        for rank in grid.ranks
    )  # a weight and two moments of float32 each
    assert facts["moved_bytes"] + facts["kept_bytes"] + facts["lost_bytes"] == held
    assert all(s < 8 and r < 8 for s, r, _ in facts["messages"])
    text = planner(*words, "--lost", "8-15")
    assert "from 16 devices, 8 of them lost to 8" in text.out
    same = planner("reshard", "--from", plans["train8"], "--to", plans["train8"], "--dry-run")
    assert "0 B move between devices" in same.out


def test_names_parts_and_turned_matrices(planner: Callable[..., Run], tmp_path: Path) -> None:
    write(tmp_path / "hf.safetensors", {"h.0.fc.weight": W, "h.0.ln": B})
    names = tmp_path / "names.yaml"
    names.write_text(
        "- {pattern: 'h\\.(\\d+)\\.fc\\.weight', name: ['a.\\1.q', 'a.\\1.k'], transpose: true}\n"
        "- {pattern: 'h\\.(\\d+)\\.ln', name: 'n.\\1'}\n"
    )
    run = planner(
        "reshard", "--in", tmp_path / "hf.safetensors", "--single", "--names", names,
        "--out", tmp_path / "out", "--format", "ckpt",
    )  # fmt: skip
    assert run.code == 0, run.err
    (found,) = read_ranks(tmp_path / "out")
    parts = [np.ascontiguousarray(part.T) for part in np.split(W, 2, axis=1)]
    assert_same(found, {"a.0.q": parts[0], "a.0.k": parts[1], "n.0": B})


def test_experts_are_stacked_and_taken_apart(planner: Callable[..., Run], tmp_path: Path) -> None:
    apart = {f"l.{i}.experts.{e}.w": W + 10 * i + e for i in range(2) for e in range(3)}
    apart |= {f"m.{name}": array * 2 for name, array in apart.items()}
    write(tmp_path / "apart.safetensors", apart)
    words = ("reshard", "--single", "--in")
    there = planner(
        *words, tmp_path / "apart.safetensors", "--stack", "l.*.experts.{}.w=l.*.experts.w",
        "--out", tmp_path / "one",
    )  # fmt: skip
    assert there.code == 0, there.err
    (found,) = read_ranks(tmp_path / "one")
    stacks = {f"l.{i}.experts.w": np.stack([W + 10 * i + e for e in range(3)]) for i in range(2)}
    assert_same(found, stacks | {f"m.{name}": array * 2 for name, array in stacks.items()})
    back = planner(
        *words, tmp_path / "one", "--stack", "l.*.experts.w=l.*.experts.{}.w",
        "--out", tmp_path / "back",
    )  # fmt: skip
    assert back.code == 0, back.err
    (again,) = read_ranks(tmp_path / "back")
    assert_same(again, apart)


def test_ties_and_types(planner: Callable[..., Run], tmp_path: Path) -> None:
    write(tmp_path / "x.safetensors", {"w": W})
    run = planner(
        "reshard", "--in", tmp_path / "x.safetensors", "--single", "--tie", "head=w",
        "--dtype", "fp16", "--out", tmp_path / "out",
    )  # fmt: skip
    assert run.code == 0, run.err
    (found,) = read_ranks(tmp_path / "out")
    assert_same(found, {"w": W.astype(np.float16), "head": W.astype(np.float16)})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--in", "IN", "--out", "OUT"], "one target is needed"),
        (["--in", "IN", "--to", "NEW", "--single", "--out", "OUT"], "more than one target"),
        (["--single", "--out", "OUT"], "no checkpoint is given"),
        (["--in", "IN", "--single"], "no place for the new checkpoint"),
        (["--in", "IN", "--single", "--out", "OUT"], "files of rank 1 for a layout on 1 ranks"),
        (["--in", "IN", "--from", "NEW", "--single", "--out", "OUT"], "for a layout on 4 ranks"),
        (["--in", "IN", "--from", "WIDE", "--single", "--out", "OUT"], "not dims [32, 24] as by"),
        (["--in", "IN", "--from", "OLD", "--to", "IN", "--out", "OUT"], "is a folder"),
        (["--in", "IN", "--from", "OLD", "--to", "OTHER", "--out", "OUT"], "has no 'v'"),
        (["--in", "IN", "--from", "OLD", "--like", "8", "--out", "OUT"], "has no rank 8"),
        (["--in", "IN", "--from", "OLD", "--like", "3-1", "--out", "OUT"], "is no number or range"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--memory", "1MiB"], "little"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--dtype", "f"], "'f'"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--tie", "x"], "NEW=OLD"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--tie", "x=y"], "'y'"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--stack", "x=y"], "one {}"),
        (["--in", "IN", "--from", "OLD", "--single", "--dry-run", "--stack", "x{}=y"], "no tensor"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "IN/x"], "would lie in the old one"),
        (["--in", "NONE", "--single", "--out", "OUT"], "cannot be read"),
        (["--in", "EMPTY", "--single", "--out", "OUT"], "no checkpoint is there"),
        (["--from", "OLD", "--to", "NEW", "--dry-run"], "both layouts must be plans"),
        (["--in", "IN", "--from", "OLD", "--single", "--dry-run", "--lost", "1"], "two plans"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--file-name", "a/b"], "a/b"),
        (["--in", "IN", "--from", "OLD", "--single", "--out", "OUT", "--names", "NONE"], "names"),
    ],
)
def test_faults_are_said_and_nothing_is_written(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path,
    words: list[str], message: str,
) -> None:  # fmt: skip
    source, old, new = job
    (tmp_path / "empty").mkdir()
    wide = slicing({"w": Grid((8,), ((), ())), "b": Grid((8,), ((0,),))})
    other = tmp_path / "other.json"
    other.write_text(new.read_text().replace('"b":', '"v":'))
    places = {
        "IN": source, "OLD": old, "NEW": new, "OUT": tmp_path / "out", "IN/x": source / "x",
        "NONE": tmp_path / "none", "EMPTY": tmp_path / "empty", "OTHER": other,
        "WIDE": strategy(tmp_path / "wide.json", wide),
    }  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    run = planner("reshard", *(places.get(word, word) for word in words))
    assert run.code == 2, run.err
    assert message in run.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_slice_is_an_error_unless_another_rank_has_a_copy(
    planner: Callable[..., Run], tmp_path: Path
) -> None:
    layout = slicing({"w": Grid((2, 2), ((1,), ())), "b": Grid((2, 2), ((),))})
    source = saved(tmp_path / "in", WHOLE, layout, ".safetensors")
    file = strategy(tmp_path / "old.json", layout)
    words = ("reshard", "--in", source, "--from", file, "--single", "--out")
    (source / "rank_1" / "checkpoint.safetensors").unlink()
    assert planner(*words, tmp_path / "one").code == 0
    assert_slices(tmp_path / "one", whole_slicing())
    (source / "rank_3" / "checkpoint.safetensors").unlink()
    run = planner(*words, tmp_path / "two")
    assert run.code == 2
    assert "a slice of 'w' is in no file: that of rank 1" in run.err


def test_damage_is_found_before_anything_is_written(
    planner: Callable[..., Run], job: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    source, old, new = job
    first, second = tmp_path / "first", tmp_path / "second"
    planner("reshard", "--in", source, "--from", old, "--to", new, "--out", first)
    path = first / "rank_2" / "checkpoint.ckpt"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    words = ("reshard", "--in", first, "--from", new, "--single", "--out", second)
    run = planner(*words)
    assert run.code == 2
    assert "is damaged: its checksum is" in run.err
    assert not second.exists()
    assert planner(*words, "--no-verify").code == 0
