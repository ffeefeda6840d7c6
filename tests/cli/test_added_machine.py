"""One file for a chip, one for its server and one for its cluster: every command knows them."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import data
from costmodel.operators.constants import generation_of
from costmodel.training import machines
from topology import catalogue, machine_names

Planner = Callable[..., Any]

CHIP = """\
schema_version: 2
name: x9000
aliases: [x9]
hardware: ["x9000"]
use: h100_sxm_80g
override:
  family: ACME X9000
  memory: {capacity: 120 GiB}
"""
SERVER = """\
schema_version: 2
name: x9000_node
use: dgx_h100
override:
  chip: x9000
  links: {nvlink: {bandwidth: 600 GB/s}}
"""
CLUSTER = """\
schema_version: 2
name: acme-pod
aliases: [acme]
cluster:
  servers: [{use: x9000_node}]
  fabrics: {server: {type: switch}}
  library: {name: nccl, generation: hopper, profile: dgx-h100}
  reserved_memory: 4 GiB
"""
CACHES = (
    data.read_yaml, machine_names.known_machines, machine_names._by_spelling,
    machine_names._chips_by_spelling, catalogue.named_machine, machines._bundled,
)  # fmt: skip
NAMES = ["acme-pod", "acme", "x9000", "X9"]


@pytest.fixture(autouse=True)
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The bundled data with three files more."""
    folder = tmp_path_factory.mktemp("bundled") / "data"
    shutil.copytree(Path(str(data.files())), folder)
    for kind, name, text in (
        ("chips", "x9000", CHIP),
        ("servers", "x9000_node", SERVER),
        ("clusters", "acme-pod", CLUSTER),
    ):
        (folder / kind / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_package_files", lambda _: folder)
        _forget()
        yield
    _forget()


def _forget() -> None:
    for each in CACHES:
        each.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_a_search_knows_it(name: str, planner: Planner, mlp: Path, tmp_path: Path) -> None:
    found = planner("search", mlp, "--devices", 16, "--cluster", name, "-o", tmp_path)
    assert found.code == 0, found.err
    cluster = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    assert (cluster["name"], cluster["chip"]["name"]) == ("acme-pod", "x9000")


def test_its_generation_decides_which_measured_constants_it_takes() -> None:
    assert generation_of("x9000", "ACME X9000") == "hopper"
    assert machines.machine("acme-pod").generation == "hopper"


@pytest.mark.parametrize("name", NAMES)
def test_layouts_know_it(name: str, planner: Planner) -> None:
    size = ("--devices", 8, "--batch", 8, "--json")
    found = planner("layouts", "llama3-8b", *size, "--cluster", name).json
    assert found["machine"] == "acme-pod"
    assert found["limit_bytes"] == 116 * 2**30
    usual = planner("layouts", "llama3-8b", *size, "--cluster", "h100").json
    assert found["software"] == usual["software"]
    assert found["best"][0]["step_s"] <= usual["best"][0]["step_s"], "links are faster"


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_of_a_layout_knows_it(name: str, planner: Planner) -> None:
    layout = ("simulate", "llama3-8b", "--layout", "tp=8,batch=1,micro=1", "--json", "--cluster")
    found, usual = planner(*layout, name).json, planner(*layout, "h100").json
    assert found["step_time_s"] < usual["step_time_s"], "links are faster"


@pytest.mark.parametrize("name", NAMES)
def test_whatif_knows_it(name: str, planner: Planner, mlp: Path) -> None:
    found = planner(
        "whatif", mlp, "--devices", 4, "--workers", 1, "--cluster", f"dgx-h100,{name}", "--json"
    )
    assert found.code == 0, found.err
    assert [point["status"] for point in found.json["points"]] == ["ok", "ok"]


def test_rows_of_published_runs_know_it(planner: Planner, tmp_path: Path) -> None:
    row = {
        "id": "one", "hardware": "8 x ACME X9000 120GB", "model": "GPT-1.3B", "hidden": 2048,
        "layers": 24, "heads": 16, "seq_len": 2048, "global_batch": 8, "devices": 8, "dp": 8,
        "micro_batch": 1,
    }  # fmt: skip
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(row))
        table.writeheader()
        table.writerow(row)
    found = planner("validate", path, "--json")
    assert found.code == 0, found.err
    assert found.json["predicted"] == 1


def test_the_catalogue_lists_it(planner: Planner) -> None:
    out = planner("topology", "list").out
    assert "\nacme-pod " in out
    assert "\nx9000 " in out
