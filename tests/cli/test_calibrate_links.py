"""`planner calibrate links`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]

HEAD = "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"


def table(latency_us: float, gb_per_s: float) -> str:
    """Eight fully meshed cards: 2 a + 2 n / 8 over each link."""
    rows = (
        (n, 2 * latency_us + 2 * n / 8 / gb_per_s / 1e3) for n in (2**k for k in range(12, 31, 2))
    )
    return HEAD + "".join(f"{n} | {us:.3f} | 0 | success\n" for n, us in rows)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all_reduce_test.log"
    path.write_text(table(10.0, 14.0), encoding="utf-8")
    return path


def test_a_log_becomes_a_machine_file_that_the_planner_takes(
    planner: Planner, log: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    run = planner("calibrate", "links", str(log), "--ranks", "8", "-o", str(mine))
    assert run.code == 0
    assert "card.latency_s" in run.out
    assert "10 measurements (hccl_test) on atlas-800t-a2" in run.out
    assert "no measurement depends on server.latency_s" in " ".join(run.out.split())
    assert planner("topology", "check", str(mine)).code == 0
    text = mine.read_text(encoding="utf-8")
    assert "10 collectives of 4096 to 1073741824 bytes from all_reduce_test.log" in " ".join(
        text.split()
    )
    again = planner(
        "calibrate", "links", str(log), "--ranks", "8", "--cluster", str(mine), "--json"
    ).json
    values = {each["name"]: each["value"] for each in again["constants"]}
    assert values["card.latency_s"] == pytest.approx(10e-6, rel=0.02)
    assert values["card.efficiency"] == pytest.approx(0.5, rel=0.02)
    before = {each["name"]: each["before"] for each in again["constants"]}
    assert before == pytest.approx(values, rel=0.02)


def test_json_has_residuals_intervals_and_where_they_come_from(planner: Planner, log: Path) -> None:
    facts = planner("calibrate", "links", str(log), "--ranks", "8", "--json").json
    assert facts["status"] == "ok"
    assert facts["median_error"] < 0.01
    assert len(facts["residuals"]) == facts["measurements"] == 10
    assert facts["residuals"][0]["origin"] == "all_reduce_test.log:2"
    for each in facts["constants"]:
        assert each["interval"][0] <= each["value"] <= each["interval"][1]
        assert each["measurements"] == 10
    assert facts["written"] is None


def test_the_same_logs_give_the_same_bytes(planner: Planner, log: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.yaml", "b.yaml")]
    for file in files:
        planner("calibrate", "links", str(log), "--ranks", "8", "-o", str(file))
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing says on how many ranks"),
        (("--ranks", "8", "--kind", "all_reduec"), "did you mean 'all_reduce'"),
        (("--ranks", "9"), "the machine has no such group"),
        (("--ranks", "8", "--cluster", "dgx-a10"), "did you mean 'dgx-a100'"),
    ],
)
def test_faults_are_told_and_leave_nothing_behind(
    planner: Planner, log: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    out = tmp_path / "out" / "mine.yaml"
    run = planner("calibrate", "links", str(log), *arguments, "-o", str(out))
    assert run.code == 2
    assert told in run.err
    assert "fix:" in run.err
    assert not out.parent.exists()


def test_too_few_measurements_are_said_to_be_too_few(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "all_gather.log"
    path.write_text(HEAD + "1024 | 5 | 1 | success\n", encoding="utf-8")
    run = planner("calibrate", "links", str(path), "--ranks", "8")
    assert run.code == 2
    assert "1 measurements of 1 sizes are too few for a fit" in run.err


def test_a_missing_file_is_told(planner: Planner, tmp_path: Path) -> None:
    run = planner("calibrate", "links", str(tmp_path / "none.log"))
    assert run.code == 2
    assert "none.log" in run.err
