"""`planner topology rank-table` and `hccn`, and a search on a rank table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topology.catalogue import named_machine

pytestmark = pytest.mark.fast

SAMPLES = Path(__file__).parents[1] / "data" / "rank_tables"
Planner = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "servers", "devices"),
    [
        (("--servers", 1, "--devices", 2), 1, [0, 1]),
        (("--servers", 1, "--device-ids", "4-7"), 1, [4, 5, 6, 7]),
        (("--servers", 1), 1, list(range(8))),
        (("--servers", 2), 2, list(range(8))),
        ((), 1, list(range(8))),
        (("--devices", 16), 2, list(range(8))),
        (("--devices", 4), 1, list(range(4))),
        (("--devices", 16, "--device-ids", "0-7"), 2, list(range(8))),
    ],
)
def test_made_tables_are_right(
    planner: Planner, tmp_path: Path, options: tuple[object, ...], servers: int, devices: list[int]
) -> None:
    made = planner("topology", "rank-table", "--cluster", "atlas-800-9000", *options)
    assert made.code == 0
    assert "placeholders" in made.err
    listed = made.json["server_list"]
    assert len(listed) == servers
    assert all([int(d["device_id"]) for d in s["device"]] == devices for s in listed)
    file = tmp_path / "table.json"
    file.write_text(made.out)
    check = planner("topology", "check", file, "--product", "910A", "--json")
    assert (check.code, check.json["errors"], check.json["warnings"]) == (0, [], [])


@pytest.mark.parametrize("cluster", ["atlas-200t-a2-box16", "atlas-800t-a2", "atlas-900-a3"])
def test_a_server_has_as_many_devices_as_its_machine_says(cluster: str, planner: Planner) -> None:
    machine = named_machine(cluster)
    whole = machine.file.servers[machine.entries[0].use].devices
    made = planner("topology", "rank-table", "--cluster", cluster, "--devices", 32).json
    assert [len(server["device"]) for server in made["server_list"]] == [whole] * (32 // whole)
    one = planner("topology", "rank-table", "--cluster", cluster).json
    assert [len(server["device"]) for server in one["server_list"]] == [whole]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--devices", 12), ("12 devices fill no number of servers", "give 8 or 16")),
        (("--devices", 16, "--servers", 1), ("16 devices on 1 server", "give --servers 2, or at")),
        (("--devices", 3, "--servers", 2), ("3 devices on 2 servers", "a multiple of 2, at most")),
        (("--devices", 4, "--device-ids", "0-7"), ("are 8, not 4", "leave one of the two out")),
    ],
)
def test_devices_that_fill_no_servers_are_refused_with_what_would(
    options: tuple[object, ...], words: tuple[str, ...], planner: Planner
) -> None:
    run = planner("topology", "rank-table", "--cluster", "atlas-800-9000", *options)
    assert (run.code, run.out) == (2, "")
    assert all(word in run.err for word in words), run.err


def test_servers_and_addresses_come_from_a_file(planner: Planner, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.txt"
    ips = [[f"192.{1 + i % 4}.27.{6 + 2 * server + i // 4}" for i in range(8)] for server in (1, 0)]
    hosts.write_text(f"# ours\n10.0.0.9 {' '.join(ips[0])}\n\n10.0.0.10 {' '.join(ips[1])}\n")
    output = tmp_path / "new" / "table.json"
    made = planner(
        "topology", "rank-table", "--cluster", "atlas-800-9000", "--hosts", hosts, "-o", output
    )
    assert (made.code, made.err, made.out) == (0, "", f"{output}\n")
    first, second = json.loads(output.read_text())["server_list"]
    assert (first["server_id"], second["server_id"]) == ("10.0.0.10", "10.0.0.9")
    assert [d["device_ip"] for d in first["device"]] == ips[1]
    assert [d["rank_id"] for d in second["device"]] == [str(8 + i) for i in range(8)]


def test_tables_of_servers_are_merged_in_any_order(planner: Planner, tmp_path: Path) -> None:
    record = json.loads((SAMPLES / "valid_910a_2s_16p.json").read_text())
    files = []
    for number, server in enumerate(record["server_list"]):
        devices = [{**d, "rank_id": str(i)} for i, d in enumerate(server["device"])]
        one = {**record, "server_count": "1", "server_list": [{**server, "device": devices}]}
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(one))
    runs = [planner("topology", "rank-table", *order) for order in (files, reversed(files))]
    assert [run.json for run in runs] == [record, record]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "one of three ways"),
        (("--hosts", "none.txt"), "one of three ways"),
        (("--servers", 2), "the machine is not named"),
        (("--cluster", "atlas-800-9000", SAMPLES / "valid_910a_8p.json"), "one of three ways"),
        (("--cluster", "dgx-h100"), "no rank table of version 1"),
        (("--cluster", "nowhere"), "nowhere"),
        (("--cluster", "atlas-800-9000", "--devices", 3), "a job takes 1, 2, 4 or 8"),
        (("--cluster", "atlas-800-9000", "--device-ids", "2-5"), "both rings"),
        (("--cluster", "atlas-800-9000", "--device-ids", "7-2"), "no devices"),
        (("--cluster", "atlas-800-9000", "--device-ids", "1,x"), "'x' is no device id"),
        (("--cluster", "atlas-800-9000", "--devices", 8, "--servers", 3), "8 devices on 3 servers"),
        (("--cluster", "atlas-800-9000", "--servers", 0), "0 is less than 1"),
        (("--cluster", "atlas-800-9000", "--servers", 10**9), "is more than 1048576"),
        (("--cluster", "atlas-800-9000", "--hosts", "none.txt"), "cannot read none.txt"),
        ((SAMPLES / "invalid_rank_gap.json",) * 2, "is in two tables"),
        ((SAMPLES / "invalid_not_json.json",), "E_JSON"),
        ((SAMPLES / "invalid_device_ip_dup.json",), "E_IP_DUP"),
        ((SAMPLES / "missing.json",), "cannot read"),
        ((SAMPLES,), "cannot read"),
    ],
)
def test_what_cannot_be_made(planner: Planner, arguments: tuple[object, ...], what: str) -> None:
    run = planner("topology", "rank-table", *arguments)
    assert (run.code, run.out) == (2, "")
    assert what in run.err
    assert "  fix: " in run.err


def test_nothing_is_left_behind_where_nothing_can_be_written(
    planner: Planner, tmp_path: Path
) -> None:
    run = planner("topology", "rank-table", "--cluster", "atlas-800-9000", "-o", tmp_path)
    assert run.code == 2
    assert list(tmp_path.iterdir()) == []


def test_link_checks_are_a_script(planner: Planner) -> None:
    run = planner("topology", "hccn", "--rank-table", SAMPLES / "valid_910a_2s_16p.json")
    lines = run.out.splitlines()
    assert run.code == 0
    assert lines[0] == "# on 10.155.111.140"
    assert lines[3] == "hccn_tool -i 0 -netdetect -s address 192.168.100.102  # 10.155.111.141"
    assert sum("-net_health" in line for line in lines) == 16


def test_link_checks_as_json(planner: Planner) -> None:
    file = SAMPLES / "valid_910a_2s_16p.json"
    run = planner("topology", "hccn", "--rank-table", file, "--peers", "next", "--json")
    assert run.json["commands"][2] == {
        "server_id": "10.155.111.140",
        "device_id": 0,
        "peer_server_id": "10.155.111.141",
        "command": "hccn_tool -i 0 -netdetect -s address 192.168.100.102",
    }


@pytest.mark.parametrize("name", ["invalid_not_json", "invalid_device_ip_dup"])
def test_links_of_wrong_tables_are_not_checked(planner: Planner, name: str) -> None:
    run = planner("topology", "hccn", "--rank-table", SAMPLES / f"{name}.json")
    assert (run.code, run.out) == (2, "")


def test_links_are_checked_whatever_the_rings(planner: Planner) -> None:
    run = planner("topology", "hccn", "--rank-table", SAMPLES / "invalid_910a_6p.json")
    assert run.code == 0


def _search(planner: Planner, model: Path, table: Path, *more: object) -> Any:
    return planner("search", model, "--cluster", table, "--batch", 32, "--dtype", "fp16", *more)


def test_a_rank_table_is_planned_for(planner: Planner, mlp: Path, tmp_path: Path) -> None:
    table = SAMPLES / "valid_910a_2s_16p.json"
    run = _search(planner, mlp, table, "-o", tmp_path)
    assert run.code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert sorted(plan["rank_order"]) == list(range(16))
    assert plan["cluster"]["name"] == "atlas-800-9000"
    assert any("product 910A (inferred from version 1.0" in note for note in plan["notes"])
    assert _ranks(tmp_path / "rank_table.json") == _placed(_ranks(table), plan["rank_order"])
    check = planner("topology", "check", tmp_path / "rank_table.json", "--product", "910A")
    assert check.code == 0


def _ranks(table: Path) -> dict[tuple[str, str], int]:
    """Rank by server and device."""
    servers = json.loads(table.read_text())["server_list"]
    return {
        (s["server_id"], d["device_id"]): int(d["rank_id"]) for s in servers for d in s["device"]
    }


def _placed(ranks: dict[tuple[str, str], int], order: list[int]) -> dict[tuple[str, str], int]:
    """The same cards, each with the rank whose device it is in the order."""
    return {card: order.index(rank) for card, rank in ranks.items()}


def _by_pairs(tmp_path: Path) -> Path:
    """A table whose ranks go from ring to ring."""
    record = json.loads((SAMPLES / "valid_910a_8p.json").read_text())
    for card in record["server_list"][0]["device"]:
        card["rank_id"] = str(int(card["device_id"]) % 4 * 2 + int(card["device_id"]) // 4)
    table = tmp_path / "table.json"
    table.write_text(json.dumps(record))
    return table


def test_ranks_in_another_order_are_devices_of_the_plan(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    table = _by_pairs(tmp_path)
    assert _search(planner, mlp, table, "--target", "jax", "-o", tmp_path / "jax").code == 0
    plan = json.loads((tmp_path / "jax" / "plan.json").read_text())
    assert plan["rank_order"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert not (tmp_path / "jax" / "rank_table.json").exists()


def test_mindspore_gets_a_table_in_the_order_of_the_plan(
    planner: Planner, mlp: Path, tmp_path: Path
) -> None:
    table = _by_pairs(tmp_path)
    assert _search(planner, mlp, table, "-o", tmp_path / "plan").code == 0
    order = json.loads((tmp_path / "plan" / "plan.json").read_text())["rank_order"]
    written = tmp_path / "plan" / "rank_table.json"
    assert _ranks(written) == _placed(_ranks(table), order)


def test_a_table_is_made_for_a_plan(planner: Planner, mlp: Path, tmp_path: Path) -> None:
    options = ("--batch", 32, "--dtype", "fp16", "--cluster", "atlas-800-9000", "--devices", 16)
    assert planner("search", mlp, *options, "-o", tmp_path).code == 0
    order = json.loads((tmp_path / "plan.json").read_text())["rank_order"]
    made = tmp_path / "table.json"
    run = planner("topology", "rank-table", "--plan", tmp_path / "plan.json", "-o", made)
    assert run.code == 0
    plain = {card: rank for rank, card in enumerate(sorted(_ranks(made)))}
    assert _ranks(made) == _placed(plain, order)


@pytest.mark.parametrize(
    ("name", "more", "what"),
    [
        ("valid_910a_8p", ("--devices", 16), "the rank table has 8 devices, not 16"),
        ("invalid_910a_6p", (), "E_DEVICE_COUNT"),
        ("valid_910b_3p", (), "or give --product 910B"),
        ("valid_910b_3p", ("--product", "910B"), "MindSpore does not run on 3 devices"),
        ("valid_910a_8p", ("--product", "x"), "unknown product 'x'"),
        ("invalid_not_json", (), "E_JSON"),
    ],
)
def test_tables_that_cannot_be_planned_for(
    planner: Planner, mlp: Path, name: str, more: tuple[object, ...], what: str
) -> None:
    run = _search(planner, mlp, SAMPLES / f"{name}.json", *more)
    assert (run.code, run.out) == (2, "")
    assert what in run.err


def test_the_product_may_be_given(planner: Planner, mlp: Path) -> None:
    table = SAMPLES / "valid_910b_8p_one_segment.json"
    run = _search(planner, mlp, table, "--product", "910B", "--json")
    assert (run.code, run.json["status"]) == (0, "ok")


def test_only_a_rank_table_has_a_product(planner: Planner, mlp: Path) -> None:
    run = planner("search", mlp, "--devices", 8, "--product", "910A")
    assert run.code == 2
    assert "leave it out" in run.err


def test_a_machine_of_any_size_needs_a_number_of_devices(planner: Planner, mlp: Path) -> None:
    run = planner("search", mlp, "--cluster", "atlas-800-9000")
    assert run.code == 2
    assert "--devices 16" in run.err


def test_a_table_of_100_megabytes_is_refused(planner: Planner, tmp_path: Path) -> None:
    file = tmp_path / "bomb.json"
    with file.open("wb") as stream:
        stream.truncate(100 * 10**6)
    for run in (
        planner("topology", "hccn", "--rank-table", file),
        planner("topology", "rank-table", file),
        planner("topology", "check", file),
    ):
        assert run.code == 2
        assert "larger than" in run.err


def test_a_table_is_checked_beside_what_its_servers_say(planner: Planner, tmp_path: Path) -> None:
    table, conf, log = tmp_path / "table.json", tmp_path / "hccn.conf", tmp_path / "links.log"
    made = planner("topology", "rank-table", "--cluster", "atlas-800-9000", "-o", table)
    assert made.code == 0
    server = json.loads(table.read_text())["server_list"][0]
    cards = server["device"]
    conf.write_text("\n".join(f"address_{c['device_id']}={c['device_ip']}" for c in cards))
    log.write_text("hccn_tool -i 3 -link -g\nlink status: UP\n")
    call = ("topology", "check", table, "--product", "910A", "--hccn-conf", conf, "--hccn-log")
    assert planner(*call, log).code == 0
    log.write_text("hccn_tool -i 3 -link -g\nlink status: DOWN\n")
    run = planner(*call, f"{server['server_id']}={log}")
    assert run.code == 2
    assert "E_LINK_DOWN" in run.out
    assert "device 3" in run.out


def test_answers_of_an_unnamed_server_are_an_error(planner: Planner, tmp_path: Path) -> None:
    table, log = tmp_path / "table.json", tmp_path / "links.log"
    arguments = ("--cluster", "atlas-800-9000", "--servers", 2, "-o", table)
    assert planner("topology", "rank-table", *arguments).code == 0
    log.write_text("hccn_tool -i 3 -link -g\nlink status: UP\n")
    for option, what in (("--hccn-log", "on which server"), ("--hccn-conf", "names no server")):
        run = planner("topology", "check", table, option, log)
        assert run.code == 2
        assert what in run.err
