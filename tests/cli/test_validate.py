"""`planner validate` and `planner calibrate steps`: columns in and out, and hostile tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.training.run_schema import COLUMNS, FIELDS
from tests.costmodel.training.test_rows import ROW

Planner = Callable[..., Any]
TIMES = ("6.1", "5.2", "9.9", "3.3", "4.4", "7.0")


def table(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list({key: None for row in rows for key in row}))
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows() -> list[dict[str, str]]:
    """Six layouts with times, one without, one that cannot be."""
    layouts = [("8", "2"), ("4", "4"), ("2", "8"), ("8", "2"), ("4", "4"), ("2", "8")]
    made = [
        ROW
        | {"id": f"row-{index}", "tp": tp, "dp": dp, "micro_batch": str(1 + index // 3)}
        | {"measured_step_time_s": time, "measured_memory_gb": "30"}
        for index, ((tp, dp), time) in enumerate(zip(layouts, TIMES, strict=True))
    ]
    return [*made, ROW | {"id": "new"}, ROW | {"id": "bad", "layers": "many"}]


def predictions(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_is_predicted_or_says_why_not(planner: Planner, tmp_path: Path) -> None:
    target = tmp_path / "out" / "p.csv"
    done = planner("validate", table(tmp_path / "rows.csv", rows()), "-o", target)
    assert done.code == 0
    found = predictions(target)
    assert list(found[0]) == [
        "id", "predicted_step_time_s", "predicted_low_s", "predicted_high_s", "predicted_memory_gb",
        "predicted_fits", "predicted_fit_chance", "relative_error", "skipped_reason",
    ]  # fmt: skip
    assert [row["id"] for row in found] == [*(f"row-{i}" for i in range(6)), "new", "bad"]
    first = found[0]
    error = float(first["predicted_step_time_s"]) / 6.1 - 1
    assert float(first["relative_error"]) == pytest.approx(error, abs=1e-3)
    assert float(first["predicted_low_s"]) < float(first["predicted_step_time_s"])
    assert (float(first["predicted_fit_chance"]) >= 0.5) == (first["predicted_fits"] == "yes")
    assert found[6]["relative_error"] == "" != found[6]["predicted_step_time_s"]
    assert found[7]["predicted_step_time_s"] == ""
    assert "'many'" in found[7]["skipped_reason"]


def test_predictions_do_not_read_what_was_measured(planner: Planner, tmp_path: Path) -> None:
    blind = [
        {key: "" if key.startswith("measured_") else value for key, value in row.items()}
        for row in rows()
    ]
    for row in blind:
        row["notes"] += "; [check] derived model TFLOP/s/dev=999"
    outputs = []
    for name, content in (("seen", rows()), ("blind", blind)):
        target = tmp_path / f"{name}.out.csv"
        planner("validate", table(tmp_path / f"{name}.csv", content), "-o", target)
        outputs.append(predictions(target))
    for seen, unseen in zip(*outputs, strict=True):
        assert unseen["relative_error"] == ""
        assert {k: v for k, v in seen.items() if k != "relative_error"} == {
            k: v for k, v in unseen.items() if k != "relative_error"
        }


def test_the_summary_is_by_block(planner: Planner, tmp_path: Path) -> None:
    done = planner("validate", table(tmp_path / "rows.csv", rows()), "--json")
    answer = json.loads(done.out)
    (block,) = answer["blocks"]
    assert (block["block"], block["used"], block["available"]) == ("mindspeed-910b", 6, 6)
    reason = "column 'layers' is 'many', not a whole number from 1 to 1e9"
    assert answer["skipped"] == {"bad": reason}
    assert answer["fits"]["ran_fits"] + answer["fits"]["ran_does_not"] == 6
    assert answer["fits"]["failed_fits"] == 0
    assert answer["memory"][0]["used"] == 6


@pytest.mark.fast
def test_a_skipped_row_with_a_measurement_counts_as_wholly_wrong(
    planner: Planner, tmp_path: Path
) -> None:
    content = [*rows()[:1], rows()[7] | {"measured_step_time_s": "3"}]
    answer = json.loads(planner("validate", table(tmp_path / "r.csv", content), "--json").out)
    skipped = next(block for block in answer["blocks"] if block["used"] == 0)
    assert (skipped["available"], skipped["median"]) == (1, 1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,hardware\nx,y\n", "no column 'model'"),
        ("", "no column 'id'"),
        ('id,hardware,model\n"x', "no column 'hidden'"),
        ("id;hardware;model;notes\nx;y;z;a,b\n", "separated by semicolons"),
        ("id\thardware\tmodel\nx\ty\tz\n", "separated by tabs"),
        ("id|hardware|model\nx|y|z\n", "separated by vertical bars"),
        ("id,hardware\nx\0,y\n", "NUL characters"),
        ("id,hardware,model,hidden,layers,heads,seq_len,global_batch,tp, TP\n", "'tp' more than"),
    ],
)
def test_a_table_without_its_columns_is_refused(
    planner: Planner, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    done = planner("validate", path, "-o", tmp_path / "p.csv")
    assert done.code == 2
    assert message in done.err
    assert "fix:" in done.err
    assert not (tmp_path / "p.csv").exists()


def test_names_of_columns_are_read_with_blanks_and_capitals(
    planner: Planner, tmp_path: Path
) -> None:
    shouted = [
        {f" {key.upper().replace('_', ' ')} ": value for key, value in row.items()}
        for row in rows()
    ]
    outputs = []
    for name, content in (("plain", rows()), ("shouted", shouted)):
        target = tmp_path / f"{name}.out.csv"
        assert planner("validate", table(tmp_path / f"{name}.csv", content), "-o", target).code == 0
        outputs.append(target.read_bytes())
    assert outputs[0] == outputs[1]


def test_columns_that_are_not_read_may_stand_twice(planner: Planner, tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", rows())
    path.write_text("".join(f"{line},,\n" for line in path.read_text().splitlines()))
    assert planner("validate", path).code == 0


def test_measured_numbers_have_thousands_too(planner: Planner, tmp_path: Path) -> None:
    content = [row | {"measured_step_time_s": "1,006.1", "seq_len": "4,096"} for row in rows()[:1]]
    target = tmp_path / "p.csv"
    planner("validate", table(tmp_path / "rows.csv", content), "-o", target)
    (found,) = predictions(target)
    error = float(found["predicted_step_time_s"]) / 1006.1 - 1
    assert float(found["relative_error"]) == pytest.approx(error, abs=1e-3)


def test_what_is_not_read_is_named(planner: Planner, tmp_path: Path) -> None:
    """Cells beyond the header, measurements that are none, ids that stand twice, absurd sizes."""
    good = rows()[0] | {"notes": ""}
    content = [
        good, good | {"measured_step_time_s": "-3"},
        good | {"id": "huge", "heads": "1", "hidden": "1e9", "seq_len": "1e9",
                "global_batch": "1e9", "layers": "1e9", "ffn_hidden": "1e9"},
    ]  # fmt: skip
    path = table(tmp_path / "rows.csv", content)
    path.write_text(path.read_text() + "shifted" + "," * (len(good) + 1) + "x\n")
    target = tmp_path / "p.csv"
    done = planner("validate", path, "-o", target, "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["repeated_ids"] == ["row-0"]
    what = ["measured_step_time_s is '-3', no number from 1e-09 to 1e+15"]
    told = {"id": "row-0 (row 2)", "what": what}
    assert answer["unread"] == [told]
    found = predictions(target)
    assert found[1]["relative_error"] == "" != found[1]["predicted_step_time_s"]
    assert "1 cells more than the header" in found[3]["skipped_reason"]
    assert not any("nan" in value or "inf" in value for row in found for value in row.values())
    text = planner("validate", path).out
    assert "Read without:" in text
    assert "Ids that stand more than once:" in text


def test_many_rows_have_progress(
    planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "rows.csv", rows())
    few = planner("validate", path, "--json")
    monkeypatch.setattr("cli.validate._AT_ONCE", 3)
    many = planner("validate", path, "--json")
    assert few.err == ""
    assert "reading row 1 of 8" in many.err
    assert "predicting 7 rows" in many.err
    assert many.out == few.out


def test_every_row_that_is_left_out_is_named(planner: Planner, tmp_path: Path) -> None:
    """Rows without an id too, those that share one, and one whose id would clear the screen."""
    good = rows()[0]
    bad = [good | {"id": name, "tp": "x"} for name in ("", "", "a", "a", "\x1b[2Jb", "c" * 300)]
    far = [good | {"id": "far", "measured_step_time_s": value} for value in ("1e-300", "inf")]
    path = table(tmp_path / "rows.csv", bad + far)
    told = json.loads(planner("validate", path, "--json").out)
    assert list(told["skipped"]) == [
        "(row 1)", "(row 2)", "a (row 3)", "a (row 4)", "\x1b[2Jb", "c" * 300
    ]  # fmt: skip
    assert [each["id"] for each in told["unread"]] == ["far (row 7)", "far (row 8)"]
    text = planner("validate", path).out
    assert "(row 1), (row 2), a (row 3) and 3 others" in " ".join(text.split())
    assert "\x1b" not in text
    own = planner("calibrate", "steps", table(tmp_path / "mine.csv", rows() + bad)).out
    assert "skipped \\x1b[2Jb: column 'tp' is 'x'" in own
    assert "\x1b" not in own


def test_repeats_of_a_configuration_do_not_predict_each_other(
    planner: Planner, tmp_path: Path
) -> None:
    repeats = [rows()[0] | {"id": str(index)} for index in range(5)]
    done = planner("calibrate", "steps", table(tmp_path / "rows.csv", repeats))
    assert done.code == 2
    assert "1 different rows" in done.err


def test_what_is_no_text_is_refused(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in planner("validate", path).err
    assert planner("validate", tmp_path / "none.csv").code == 2


def test_constants_of_ones_own_cluster(planner: Planner, tmp_path: Path) -> None:
    path, target = table(tmp_path / "rows.csv", rows()), tmp_path / "mine.yaml"
    done = planner("calibrate", "steps", path, "-o", target, "--json")
    (family,) = json.loads(done.out)["families"]
    assert (family["family"], family["rows"]) == ("mindspeed-910b", 6)
    assert family["after"] <= family["before"]
    for item in family["constants"]:
        assert item["low"] <= item["high"]
    answer = json.loads(planner("validate", path, "--calibration", target, "--json").out)
    assert answer["blocks"][0]["used"] == 6


def test_a_slower_cluster_is_learned(planner: Planner, tmp_path: Path) -> None:
    """Times that are the prediction and half as much again: the fit comes close."""
    path, target = table(tmp_path / "rows.csv", rows()[:6]), tmp_path / "p.csv"
    planner("validate", path, "-o", target)
    slow = [
        row | {"measured_step_time_s": str(1.5 * float(found["predicted_step_time_s"]))}
        for row, found in zip(rows()[:6], predictions(target), strict=True)
    ]
    done = planner("calibrate", "steps", table(tmp_path / "slow.csv", slow), "--json")
    (family,) = json.loads(done.out)["families"]
    assert family["before"] == pytest.approx(1 / 3, abs=0.01)
    assert family["after"] < 0.01
    factor = family["constants"][0]
    assert (factor["name"], factor["shipped"]) == ("all_times", 1.0)
    assert factor["fitted"] == pytest.approx(1.5, rel=0.01)


@pytest.mark.fast
def test_too_few_rows_say_nothing(planner: Planner, tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", rows()[:2])
    done = planner("calibrate", "steps", path, "-o", tmp_path / "mine.yaml")
    assert done.code == 2
    assert "3 are the least" in done.err
    assert not (tmp_path / "mine.yaml").exists()


@pytest.mark.fast
def test_the_schema_lists_every_column_that_is_read(planner: Planner) -> None:
    shown = planner("validate", "--schema")
    assert shown.code == 0
    assert all(name in shown.out for name in COLUMNS)
    listed = json.loads(planner("validate", "--schema", "--json").out)["fields"]
    assert [field["name"] for field in listed] == [field.name for field in FIELDS]


@pytest.mark.fast
def test_a_row_is_explained(planner: Planner, tmp_path: Path) -> None:
    given = [each | {"interconnect": "4x HDR per node; 3 Mb/s fabric"} for each in rows()]
    path = table(tmp_path / "rows.csv", given)
    told = planner("validate", path, "--explain", "row-1")
    assert told.code == 0
    for text in ("as the row states", "4x HDR per node", "3 Mb/s", "optimizer", "measured 5.2 s"):
        assert text in told.out, text
    answer = json.loads(planner("validate", path, "--explain", "row-1", "--json").out)
    assert sum(answer["terms_s"].values()) == pytest.approx(answer["step_s"])
    assert answer["low_s"] < answer["step_s"] < answer["high_s"]
    assert "cannot be priced" in planner("validate", path, "--explain", "bad").out
    missing = planner("validate", path, "--explain", "nobody")
    assert missing.code == 2
    assert "row-0" in missing.err


def test_records_are_validated_as_tables_are(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "runs.yaml"
    path.write_text(json.dumps({"runs": rows()[:2]}), encoding="utf-8")
    answer = json.loads(planner("validate", path, "--json").out)
    assert (answer["rows"], answer["predicted"]) == (2, 2)
    path.write_text("runs: [1]", encoding="utf-8")
    assert planner("validate", path).code == 2
    assert planner("validate").code == 2
