"""`planner search -o` into a folder with the files of an older plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from exporters.formats import TARGET_FILES
from ir.dialects import TARGETS

Planner = Callable[..., Any]
TABLES = Path(__file__).parents[1] / "data" / "rank_tables"


def written(planner: Planner, model: Path, folder: Path, *options: object) -> tuple[set[str], str]:
    """Names in the folder after a search, and what stderr said of older files."""
    run = planner("search", model, "--devices", 4, "--optimizer", "sgd", "-o", folder, *options)
    assert run.code == 0, run.err
    said = [line for line in run.err.splitlines() if str(folder) in line]
    return {path.name for path in folder.iterdir()}, "\n".join(said)


def test_files_of_another_target_go(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    """Every target after every other one, in one folder."""
    usual, folder = tmp_path / "usual", tmp_path / "plan"
    usual.touch()
    walk = list(nx.eulerian_circuit(nx.complete_graph(TARGETS, nx.DiGraph)))
    assert len(walk) == math.perm(len(TARGETS), 2)
    written(planner, mlp, folder, "--target", walk[0][0])
    for older, newer in walk:
        names, said = written(planner, mlp, folder, "--target", newer)
        assert names == {"plan.json", *TARGET_FILES.get(newer, ())}
        gone = set(TARGET_FILES.get(older, ())) - names
        assert all(f"removed {folder / name}," in said for name in gone)
        assert {path.stat().st_mode for path in folder.iterdir()} == {usual.stat().st_mode}


def test_what_the_program_did_not_write_stays(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    written(planner, mlp, tmp_path)
    (tmp_path / "mine.ckpt").write_text("mine")
    (tmp_path / "strategy.json").write_text("edited")
    (tmp_path / "torch_placements.py").write_text("mine")
    (tmp_path / "apply_mindspore.py").rename(tmp_path / "mine.py")
    (tmp_path / "apply_mindspore.py").symlink_to(tmp_path / "mine.py")
    names, said = written(planner, mlp, tmp_path, "--target", "jax")
    own = {"mine.ckpt", "mine.py", "strategy.json", "torch_placements.py", "apply_mindspore.py"}
    assert names == {"plan.json", *TARGET_FILES["jax"], *own}
    for name in own - {"mine.ckpt", "mine.py"}:
        assert f"warning: {tmp_path / name} is not of this plan" in said
    assert (tmp_path / "strategy.json").read_text() == "edited"
    assert f"removed {tmp_path / 'strategy.ckpt'}," in said


@pytest.mark.parametrize("plan", [b"", b"{}", b"\xff", None])
def test_without_the_older_plan_nothing_goes(
    plan: bytes | None, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    older, _ = written(planner, mlp, tmp_path)
    (tmp_path / "plan.json").unlink()
    if plan is not None:
        (tmp_path / "plan.json").write_bytes(plan)
    names, said = written(planner, mlp, tmp_path, "--target", "generic")
    assert names == older
    assert said.count("is not of this plan") == len(older) - 1


@pytest.mark.parametrize("edited", [False, True])
def test_a_rank_table_goes_with_its_plan(
    edited: bool, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    table = ("--cluster", TABLES / "valid_910a_8p.json", "--dtype", "fp16")
    assert planner("search", mlp, *table, "-o", tmp_path).code == 0
    path = tmp_path / "rank_table.json"
    path.write_text(path.read_text() + "\n" * edited)
    names, said = written(planner, mlp, tmp_path, "--target", "jax")
    assert ("rank_table.json" in names, f"removed {path}" in said) == (edited, not edited)
