"""Pictures: what is in them, and that they are the same each time."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.topology.machines import SERVER, alone, file, link, machine
from topology.catalogue import cluster_names, named_machine
from topology.drawing import write_picture
from topology.picture import picture_of
from topology.shapes import Picture


def labels(picture: Picture, kind: str) -> list[str]:
    return [box.label for box in picture.boxes if box.kind == kind]


def test_the_first_generation_shows_two_rings_pairs_and_what_they_share() -> None:
    picture = picture_of(named_machine("atlas-800-9000"), 1)
    assert labels(picture, "group") == ["ring 0", "ring 1"]
    assert labels(picture, "shared") == ["pcie_cross: 64 GB/s per direction"]
    assert labels(picture, "switch") == ["server: switch"]
    kinds = [line.kind for line in picture.lines]
    assert kinds.count("HCCS") == 12
    assert kinds.count("PCIE") == 4
    assert kinds.count("ROCE") == 16, "eight from cards to ports, eight into the network"
    assert picture.legend == {"HCCS": "30 GB/s", "PCIE": "32 GB/s", "ROCE": "12.5 GB/s"}


def test_pairs_of_cards_run_straight_down_and_rings_do_not_overlap() -> None:
    picture = picture_of(named_machine("atlas-800-9000"), 1)
    for line in picture.lines:
        if line.kind == "PCIE":
            (x1, y1), (x2, y2) = line.points
            assert math.isclose(x1, x2)
            assert y1 > y2
    one, two = (box for box in picture.boxes if box.kind == "group")
    assert one.y - one.height / 2 > two.y + two.height / 2


@pytest.mark.parametrize("name", cluster_names())
def test_no_two_devices_or_ports_stand_in_one_place(name: str) -> None:
    picture = picture_of(named_machine(name))
    places = [(round(dot.x, 3), round(dot.y, 3)) for dot in picture.dots]
    assert len(set(places)) == len(places)
    servers = [box for box in picture.boxes if box.kind == "server"]
    assert len(servers) == 2
    for dot in picture.dots:
        assert any(abs(dot.x - box.x) < box.width / 2 for box in servers)


@pytest.mark.parametrize("name", ["atlas-800-9000", "atlas-800t-a2"])
def test_no_device_of_a_ring_is_above_another(name: str) -> None:
    picture = picture_of(named_machine(name), 1)
    devices = {dot.label: dot for dot in picture.dots if dot.kind == "device"}
    ring = [devices[str(i)].x for i in range(4 if name == "atlas-800-9000" else 8)]
    assert min(abs(a - b) for a, b in combinations(ring, 2)) > 0.3


def test_switch_planes_are_drawn_side_by_side() -> None:
    picture = picture_of(named_machine("cloudmatrix384"), 1)
    assert labels(picture, "switch")[:7] == [f"ub {plane}" for plane in range(7)]


def test_leaves_rails_and_spine_are_drawn() -> None:
    fabric = {"type": "leaf_spine", "servers_per_leaf": 2, "oversubscription": 2}
    picture = picture_of(machine(file(count=4, fabrics={"server": fabric})), 4)
    assert labels(picture, "switch") == ["leaf 0", "leaf 1", "server: spine, oversubscription 2"]
    fabric = {"type": "rails"}
    picture = picture_of(machine(file(count=4, fabrics={"server": fabric})), 4)
    assert labels(picture, "switch") == [f"leaf {rail}" for rail in range(4)]


def test_two_kinds_of_servers_are_drawn_one_of_each() -> None:
    given = file()
    given["servers"]["small"] = SERVER | {"devices": 2}
    given["cluster"]["servers"] = [{"use": "mine", "count": 9}, {"use": "small", "count": 5}]
    assert labels(picture_of(machine(given)), "server") == ["mine x 9", "small x 5"]


def test_a_very_large_server_is_one_block() -> None:
    given = alone({"ici": link("ICI", torus={"dims": [16, 16]})}, 256)
    picture = picture_of(machine(given))
    assert not picture.dots
    assert labels(picture, "switch") == ["256 devices, torus 16 x 16"]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
@pytest.mark.parametrize("name", ["atlas-800-9000", "gb200-nvl72"])
def test_a_picture_has_the_same_bytes_each_time(name: str, suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}{suffix}" for i in range(2)]
    for path in paths:
        write_picture(named_machine(name), path)
    one, two = (path.read_bytes() for path in paths)
    assert one == two
    assert len(one) > 5000


def test_an_svg_keeps_its_words(tmp_path: Path) -> None:
    path = tmp_path / "rings.svg"
    write_picture(named_machine("atlas-800-9000"), path)
    root = ET.parse(path).getroot()
    words = {
        "".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"ring 0", "ring 1", "HCCS 30 GB/s", "atlas-800-9000", "server: switch"} <= words
    assert "<dc:date>" not in path.read_text()


@pytest.mark.fast
def test_a_torus_is_drawn_with_its_closing_links(tmp_path: Path) -> None:
    given = alone({"ici": link("ICI", torus={"dims": [2, 3, 4]})}, 24)
    picture = picture_of(machine(given))
    assert len(picture.dots) == 24
    assert sum(len(line.points) > 2 for line in picture.lines) == 2 * 4 + 2 * 3
    write_picture(machine(given), tmp_path / "torus.png")
