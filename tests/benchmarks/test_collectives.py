import csv
from pathlib import Path

import pytest

from benchmarks.collectives import BEGIN, END, cluster_of, main, read

pytestmark = pytest.mark.fast

HEADER = ("id", "system", "op", "devices", "servers", "message_bytes", "time_us", "algo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Times of a machine whose all-gathers take 10 us and 400 GB/s."""
    with (tmp_path / "collectives.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(HEADER)
        for k in range(10, 30):
            for gpus in (2, 4, 8):
                us = 10 + (gpus - 1) / gpus * 2**k / 400e3
                out.writerow((k, "NVIDIA H200 here", "all_gather", gpus, 1, 2**k, us, ""))
        out.writerow((99, "Some PCIe box", "all_gather", 2, 1, 1024, 9, ""))
        out.writerow((98, "NVIDIA H200 here", "DeepEP thing", 2, 1, 1024, 9, ""))
    return tmp_path


def test_rows_are_read_and_what_is_left_out_is_counted(folder: Path) -> None:
    systems, left_out = read(folder)
    assert {name: len(rows) for name, rows in systems.items()} == {"NVIDIA H200 here": 60}
    assert dict(left_out) == {
        "links of the system are not in data": 1,
        "not a plain collective": 1,
    }


def test_the_table_goes_between_the_marks(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    main([str(folder), "--write", str(page)])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    row = next(line for line in text.splitlines() if "all_gather" in line)
    large = float(row.split("|")[3].split("(")[0])
    assert large < 5


@pytest.mark.parametrize(
    ("system", "cluster"),
    [
        ("NVIDIA B300 SXM (8-GPU node)", "hgx-b200"),
        ("NVIDIA GB300 (4-GPU tray)", "gb200-nvl72"),
        ("vTrain V100 8-GPU node", "dgx-1v"),
        ("NVIDIA L40S PCIe", ""),
        ("NVIDIA H800 + CX7 400Gb/s IB", ""),
    ],
)
def test_systems_are_told_by_their_names(system: str, cluster: str) -> None:
    assert cluster_of(system) == cluster
