from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from cli.whatif_progress import Remaining
from planner.whatif.sweep import Count

Planner = Callable[..., Any]


def test_a_sweep_is_a_table_a_picture_and_a_text(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    table, picture = tmp_path / "sweep.csv", tmp_path / "sweep.svg"
    found = planner(
        "whatif", mlp, "--devices", "4,8", "--batch", "64", "--vary", "bandwidth=0.5:2:3",
        "--workers", "1", "--csv", table, "--plot", picture, "--tokens", "1e9", "--days", "1",
    )  # fmt: skip
    assert found.code == 0, found.err
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [(r["devices"], r["batch"], r["bandwidth"]) for r in rows] == [
        (n, "64", b) for n in ("4", "8") for b in ("0.5", "1", "2")
    ]
    assert all(float(r["step_s"]) > 0 for r in rows)
    assert picture.read_text().startswith("<?xml")
    for words in ("6 points, 6 searches", "Scaling", "Pareto front", "in 1 days", "wrote"):
        assert words in found.out
    assert "6 of 6 searches" in found.err


def test_json_is_one_object_with_the_same_points(planner: Planner, mlp: Path) -> None:
    answer = planner(
        "whatif", mlp, "--devices", "4,3", "--workers", "1", "--around", "0.2", "--json"
    ).json
    assert answer["status"] == "ok"
    assert [p["status"] for p in answer["points"]] == ["ok", "impossible"]
    assert answer["best"] == 0
    assert answer["pareto"] == [0]
    assert answer["around"]["regret"] >= 0
    assert answer["axes"]["devices"] == [4, 3]


def test_a_batch_is_the_global_batch_of_a_step_that_may_be_cut(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    planner("search", mlp, "--devices", 4, "--global-batch", 64, "--pipeline", 2, "-o", tmp_path)
    single = planner("show", tmp_path / "plan.json", "--json").json
    swept = planner(
        "whatif", mlp, "--devices", 4, "--batch", 64, "--pipeline", 2, "--workers", 1, "--json"
    ).json
    (point,) = swept["points"]
    assert point["step_s"] == single["step_time_s"]
    assert point["stages"] == 2


@pytest.mark.fast
def test_a_mix_of_steps_that_may_be_cut_is_in_the_text_and_in_json(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    asked = (
        "whatif", mlp, "--devices", 8, "--vary", "batch=16,1024", "--pipeline", 2, "--workers", 1,
        "--mix", "3,1", "-o", tmp_path,
    )  # fmt: skip
    found = planner(*asked)
    assert "A mix of 2 sizes" in found.out
    assert "1 plan: " in found.out
    assert "2 of 2 plans at other sizes" in found.err
    mix = planner(*asked, "--json").json["mix"]
    assert mix["weights"] == [0.75, 0.25]
    best = mix["best"][0]
    row = mix["step_s"][best["plans"][0]]
    assert best["expected_s"] == pytest.approx(0.75 * row[0] + 0.25 * row[1])


def test_changes_are_found_between_the_points_and_known_the_next_time(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    asked = (
        "whatif", mlp, "--devices", 8, "--batch", 64, "--workers", 1, "-o", tmp_path,
        "--vary", "bandwidth=0.01,100", "--exact-changes", "0.02",
    )  # fmt: skip
    first = planner(*asked, "--json")
    found = first.json["changes"]
    assert found
    assert all(c["exact"] and c["after"] <= c["before"] * 1.02 for c in found)
    assert "searches between points" in first.err
    again = planner(*asked, "--json")
    assert again.json["changes"] == found
    assert "searches between points" not in again.err
    assert "Where the plan changes" in planner(*asked).out


@pytest.mark.fast
def test_a_second_run_goes_on_from_what_is_there(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    first = planner("whatif", mlp, "--devices", "2", "--workers", 1, "-o", tmp_path, "--json").json
    more = planner("whatif", mlp, "--devices", "2,4", "--workers", 1, "-o", tmp_path, "--json").json
    assert (first["searches"], first["known"]) == (1, 0)
    assert (more["searches"], more["known"]) == (2, 1)
    assert more["points"][0] == first["points"][0]
    kept = tmp_path / "plans" / f"{more['points'][1]['key']}.json.gz"
    assert planner("show", kept).code == 0


@pytest.mark.fast
def test_nothing_that_fits_has_its_own_exit_status(planner: Planner, mlp: Path) -> None:
    found = planner("whatif", mlp, "--devices", "2", "--workers", 1, "--memory", "1KiB")
    assert found.code == 1
    assert "no point has a plan" in found.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--vary", "speed=1:2:3"), "unknown axis 'speed'"),
        (("--vary", "devices=2"), "axis 'devices' is given twice"),
        (("--pipeline", "auto"), "it cuts the batch of a step, and there is none"),
        (("--engine", "cloud"), "unknown engine 'cloud'"),
        (("--address", "a:1"), "only Ray has an address"),
        (("--tokens", "1e9"), "tokens and days go together"),
        (("--tokens", "x", "--days", "1"), "x tokens in 1 days"),
        (("--around", "1.5"), "costs cannot be wrong by 1.5"),
        (("--exact-changes", "0"), "changes cannot be found to 0 of a value"),
        (("--mix", "uniform"), "a mix of no sizes"),
        (("--mix", "1,2", "--vary", "batch=8,16,32"), "'1,2' is no mix of 3 sizes"),
        (("--plot", "a.pdf"), "cannot write a picture as 'pdf'"),
        (("--prices", "nowhere.yaml"), "cannot read nowhere.yaml"),
        (("--workers", "0"), "0 is less than 1"),
        (("--mtbf", "0"), "not above 0"),
        (("--target", "nonsense"), "unknown target"),
        (("--cluster", "atlas-800t-a2,nowhere"), "nowhere"),
        (("--vary", "bandwidth=0.5:2"), "the range 0.5:2 does not say how many values"),
        (("--vary", "bandwidth=0:2:3"), "'0' is no number above 0"),
        (("--spares", "2"), "nothing is said of how often devices fail"),
        (("--mtbf", "50000", "--spares", "-1"), "-1 is less than 0"),
        (("--vary", "sequence=16,32"), "fixes the length of its sequences"),
    ],
)
def test_a_wrong_option_is_one_error_with_a_way_out(
    options: tuple[str, ...], words: str, planner: Planner, mlp: Path
) -> None:
    found = planner("whatif", mlp, "--devices", "2", *options)
    assert found.code == 2
    assert words in found.err
    assert "fix:" in found.err


def test_the_time_left_is_that_of_the_searches_of_this_run() -> None:
    told: list[str] = []
    clock = iter([0.0, 0.0, 30.0, 60.0])
    watch = Remaining(told.append, lambda: next(clock))
    for done in (4, 5, 6, 10):
        watch(Count(done, 4, 10))
    assert told[0].endswith("4 of 10 searches, 4 known")
    assert told[1].endswith("5 of 10 searches, 2 min left")
    assert told[2].endswith("6 of 10 searches, 2 min left")
    assert told[3] == "[####################] 10 of 10 searches"


def test_an_open_dimension_of_the_file_is_an_axis(
    dynamic_mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    made = onnx.load(dynamic_mlp, load_external_data=False)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    opened = tmp_path / "opened.onnx"
    opened.write_bytes(made.SerializeToString())
    table = tmp_path / "sweep.csv"
    given = ["whatif", opened, "--devices", 4, "--workers", 1]
    run = planner(*given, "--vary", "rows=16,32", "--csv", table, "--json")
    assert run.code == 0, run.err
    assert [point["rows"] for point in run.json["points"]] == [16, 32]
    assert [line.split(",")[8] for line in table.read_text().splitlines()] == ["rows", "16", "32"]
    step_s = [point["step_s"] for point in run.json["points"]]
    single = planner("search", opened, "--devices", 4, "--bind", "rows=32", "--json").json
    assert step_s[1] == single["step_time_s"]
    wrong = planner(*given, "--vary", "rowz=16")
    assert (wrong.code, "did you mean 'rows'" in wrong.err) == (2, True)
