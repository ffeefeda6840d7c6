"""`planner topology`: list, show, draw, check and schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.topology.machines import SERVER, file, link
from topology.catalogue import chip_names, cluster_names

Planner = Callable[..., Any]


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    def save(given: dict[str, Any]) -> Path:
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump(given), encoding="utf-8")
        return path

    return save


def test_list_names_every_machine_and_chip(planner: Planner) -> None:
    run = planner("topology", "list")
    assert run.code == 0
    assert [n for n in (*cluster_names(), *chip_names()) if f"\n{n} " not in run.out] == []
    facts = planner("topology", "list", "--json").json
    assert [each["name"] for each in facts["clusters"]] == list(cluster_names())
    assert len(facts["chips"]) == len(chip_names())


@pytest.mark.fast
def test_show_tells_rings_shared_ways_constraints_and_tiers(planner: Planner) -> None:
    out = " ".join(planner("topology", "show", "atlas-800-9000").out.split())
    for told in (
        "ring: (0, 1, 2, 3) (4, 5, 6, 7)", "pcie_cross: 64 GB/s per direction (assumed)",
        "a job takes 1, 2, 4, 8 devices of one server", "2 in pairs at distance 4",
        "The planner's view of 16 devices", "server 2 switch ROCE 12 GB/s",
        "ring 2 pairs PCIE 19.3 GB/s 32 GB/s 64 GB/s 2.5 us",
    ):  # fmt: skip
        assert told in out


def test_show_takes_a_number_of_devices(planner: Planner) -> None:
    facts = planner("topology", "show", "dgx-h100", "--devices", 64, "--json").json
    assert facts["view"]["devices"] == 64
    assert [tier["size"] for tier in facts["view"]["tiers"]] == [8, 8]
    run = planner("topology", "show", "dgx-h100", "--devices", 12)
    assert run.code == 2
    assert "12 devices do not fill whole servers" in run.err


def test_show_tells_the_origin_of_every_number_of_a_chip(planner: Planner) -> None:
    out = planner("topology", "show", "ascend_910a").out
    assert "links.HCCS.bandwidth" in out
    assert "HC31, HERMES" in out
    facts = planner("topology", "show", "Ascend910B3", "--json").json
    assert (facts["kind"], facts["name"]) == ("chip", "ascend_910b3")


def test_show_knows_servers(planner: Planner) -> None:
    facts = planner("topology", "show", "atlas_800_9000", "--json").json
    assert facts["kind"] == "server"
    assert [each["name"] for each in facts["links"]] == ["hccs", "pcie"]
    assert "server dgx_1v: 8 x v100" in planner("topology", "show", "dgx_1v").out


def test_show_says_which_kind_of_server_limits(planner: Planner, saved: Any) -> None:
    given = file()
    given["servers"]["old"] = SERVER | {"chip": "ascend_910a"}
    given["cluster"]["servers"] = [{"use": "mine", "count": 1}, {"use": "old", "count": 1}]
    run = planner("topology", "show", saved(given))
    assert run.code == 0
    assert "note: memory is limited by old (ascend_910a): 32 GiB of 64 GiB" in run.out


def test_an_unknown_name_is_told_with_the_closest(planner: Planner) -> None:
    run = planner("topology", "show", "atlas-800-900")
    assert run.code == 2
    assert "did you mean 'atlas-800-9000'?" in run.err


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_draw_writes_one_picture(planner: Planner, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / "new" / f"rings.{suffix}"
    run = planner("topology", "draw", "atlas-800-9000", "-o", target)
    assert (run.code, run.out.strip()) == (0, str(target))
    assert list(target.parent.iterdir()) == [target]
    head = target.read_bytes()[:5]
    assert head == (b"<?xml" if suffix == "svg" else b"\x89PNG\r")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["dgx-1v", "-o", "x.pdf"], "cannot write a picture as 'pdf'"),
        (["dgx-1v", "-o", "x"], "cannot write a picture as 'nothing'"),
        (["dgx-1v", "-o", "x.svg", "--servers", "0"], "0 is less than 1"),
        (["dgx-9", "-o", "x.svg"], "unknown cluster 'dgx-9'"),
        (["none.yaml", "-o", "x.svg"], "cannot read none.yaml"),
    ],
)
def test_draw_refuses_what_it_cannot_draw(
    planner: Planner, arguments: list[str], fault: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    run = planner("topology", "draw", *arguments)
    assert run.code == 2
    assert fault in run.err
    assert list(tmp_path.iterdir()) == []


def test_check_of_a_sound_file(planner: Planner, saved: Any) -> None:
    run = planner("topology", "check", saved(file()))
    assert (run.code, run.out) == (0, "cluster.yaml: cluster file, 0 errors, 0 warnings\n")


@pytest.mark.fast
def test_check_of_a_cluster_file_in_json(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(file()), encoding="utf-8")
    run = planner("topology", "check", path)
    assert (run.code, run.out) == (0, "cluster.json: cluster file, 0 errors, 0 warnings\n")


def test_check_prints_codes_of_warnings_and_keeps_zero(planner: Planner, saved: Any) -> None:
    server = SERVER | {"links": {"mesh": link("HCCS", "300 GB/s", full_mesh="all")}}
    run = planner("topology", "check", saved(file(server)))
    assert run.code == 0
    assert run.out.startswith("warning W_FAST  servers.mine.links.mesh.bandwidth: 300 GB/s")


def test_check_prints_every_fault_with_its_code(planner: Planner, saved: Any) -> None:
    server = SERVER | {"links": {"mesh": link(full_mesh=[0, 1, 2, 9])}, "chip": "b20"}
    path = saved(file(server, count=3, fabrics={}))
    run = planner("topology", "check", path)
    assert run.code == 2
    found = [line.split()[1] for line in run.out.splitlines() if line.startswith("error ")]
    assert found == ["E_CHIP", "E_DEVICE", "E_DISCONNECTED"]
    facts = planner("topology", "check", path, "--json").json
    assert facts["status"] == "error"
    assert [each["code"] for each in facts["errors"]] == found


def test_check_of_a_text_that_is_no_file_of_ours(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "words.yaml"
    path.write_text("schema_version: [", encoding="utf-8")
    run = planner("topology", "check", path)
    assert (run.code, run.out.split()[1]) == (2, "E_TEXT")
    path.write_bytes(b"\xff\xfe\x00")
    assert "is no text in UTF-8" in planner("topology", "check", path).err
    assert "is no regular file" in planner("topology", "check", tmp_path).err


def test_check_of_a_huge_file_reads_a_bounded_part(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as out:
        out.truncate(2**27)
    run = planner("topology", "check", path)
    assert run.code == 2
    assert "is larger than" in run.err


TABLE = {
    "version": "1.0",
    "server_count": "1",
    "status": "completed",
    "server_list": [
        {
            "server_id": "10.0.0.1",
            "device": [
                {"device_id": str(i), "device_ip": f"192.168.{i}.1", "rank_id": str(i)}
                for i in range(2)
            ],
        }
    ],
}


def test_check_of_a_rank_table_says_for_which_product(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(TABLE), encoding="utf-8")
    run = planner("topology", "check", path)
    assert run.code == 0
    assert "product 910A (inferred from" in run.out
    facts = planner("topology", "check", path, "--product", "910B", "--json").json
    assert (facts["kind"], facts["product"], facts["inferred"]) == ("rank table", "910B", None)
    path.write_text(json.dumps(TABLE).replace('"device_id": "1"', '"device_id": "5"'))
    run = planner("topology", "check", path)
    assert run.code == 2
    assert "E_RING_CROSS" in run.out


def test_a_cluster_file_has_no_product(planner: Planner, saved: Any) -> None:
    run = planner("topology", "check", saved(file()), "--product", "910A")
    assert run.code == 2
    assert "is a cluster file" in run.err


@pytest.mark.fast
def test_schema_is_printed(planner: Planner) -> None:
    assert planner("topology", "schema").json["title"] == "Cluster file of the planner"


def test_a_search_runs_on_a_cluster_file(planner: Planner, saved: Any, mlp: Path) -> None:
    given = file()
    given["servers"]["old"] = SERVER | {"chip": "ascend_910b1"}
    given["cluster"]["servers"] = [{"use": "mine", "count": 1}, {"use": "old", "count": 1}]
    path = saved(given)
    run = planner("search", mlp, "--devices", 8, "--cluster", path)
    assert run.code == 0
    assert "matmul is limited by mine (ascend_910b3)" in " ".join(run.out.split())
    bad = planner("search", mlp, "--devices", 7, "--cluster", path, "--target", "generic")
    assert bad.code == 2
    assert "7 devices do not fill whole servers" in bad.err
