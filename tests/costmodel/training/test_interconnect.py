"""Free text on links: one table of spellings, and what is not understood is named."""

from __future__ import annotations

import pytest

from costmodel.training.interconnect import read_links
from costmodel.training.machines import machine

pytestmark = pytest.mark.fast

GBIT = 1e9 / 8

PORTS = [
    # a rate per server, in every unit
    ("a100-80g", "800 Gb/s inter-node per node", 100),
    ("a100-80g", "800 Gbps per node between nodes", 100),
    ("a100-80g", "800 Gbit/s per server", 100),
    ("a100-80g", "800Gb/s/node InfiniBand", 100),
    ("a100-80g", "0.8 Tb/s RoCE per host", 100),
    ("a100-80g", "100 GB/s per node InfiniBand", 100),
    ("a100-80g", "100 GBps per node over RoCE", 100),
    ("a100-80g", "800 gigabits per second of InfiniBand per machine", 100),
    ("a100-80g", "1,600 Gbps node-node interconnect (RoCE) per node", 200),
    ("a100-80g", "1.6 Tbps aggregate network bandwidth", 200),
    ("h100", "3.2 Tbps EFA", 400),
    ("h100", "EFAv2 3200 Gbps", 400),
    ("a100-80g", "EFA 400 Gbps", 50),
    ("h100", "GPUDirect-TCPXO, 1800 Gbps", 225),
    ("h100", "network of 3200 GBPS PER NODE", 400),
    # a rate per device
    ("h200", "NDR InfiniBand, 400 Gb/s per GPU", 400),
    ("h100", "TCPXO, 200 Gb/s per GPU", 200),
    ("h100", "400 Gb/s RDMA per GPU (Grand Teton)", 400),
    ("h100", "50 GB/s per GPU RDMA network", 400),
    ("a100-80g", "InfiniBand (200 Gb/s per GPU)", 200),
    ("a100-80g", "200 Gb/s/GPU InfiniBand", 200),
    ("a100-80g", "each GPU has 200 Gb/s of InfiniBand", 200),
    ("a100-80g", "one 200 Gb/s HDR NIC per GPU", 200),
    ("a100-80g", "2x100 Gb/s RoCE per GPU", 200),
    ("a100-80g", "two 100 GbE ports per GPU", 200),
    ("ascend-910b", "RoCE (200 Gb/s per NPU class) inter-node", 200),
    ("ascend-910b", "200 GbE RoCE per NPU, HCCS within the server", 200),
    ("mi300x", "400 Gb/s per accelerator, Slingshot", 400),
    # counts of ports
    ("a100-80g", "8x HDR IB per node", 200),
    ("a100-80g", "8 x HDR InfiniBand", 200),
    ("a100-80g", "HDR x8", 200),
    ("a100-80g", "4x HDR InfiniBand per node", 100),
    ("a100-80g", "dual-rail HDR InfiniBand per node", 50),
    ("a100-80g", "2 HDR200 HCAs per node", 50),
    ("a100-80g", "eight 200 Gb/s NICs per server", 200),
    ("a100-80g", "8 NICs at 200 Gb/s each", 200),
    ("a100-80g", "4 NICs per node, 200 Gb/s each", 100),
    ("a100-80g", "4 x 200 Gb/s per node (InfiniBand)", 100),
    ("a100-80g", "4×200 Gbps RoCE v2", 100),
    ("a100-80g", "200 Gb/s x 4 InfiniBand", 100),
    ("h100", "8x400G RoCE", 400),
    ("h100", "8 ConnectX-7 adapters", 400),
    ("h100", "4x CX-7 per node", 200),
    ("h100", "a single 400 Gb/s port per server, InfiniBand", 50),
    ("b300", "8x ConnectX-8 per node", 800),
    # names of generations, as many ports as the machine has
    ("h100", "8x H100 SXM NVLink4+NVSwitch per node; InfiniBand NDR between nodes (DGX-H100)", 400),
    ("h100", "NDR200 InfiniBand", 200),
    ("a100-80g", "HDR100", 100),
    ("a100-80g", "InfiniBand EDR", 100),
    ("a100-80g", "InfiniBand FDR per GPU", 56),
    ("v100-16g", "4x V100 NVLink2 per node; Omni-Path 100 Gb/s", 100),
    ("mi300x", "Slingshot-11", 200),
    ("ascend-910a", "HCCS within server (2 groups of 4), RoCE 100G between servers", 100),
    # directions
    ("a100-80g", "400 Gb/s bidirectional per GPU between nodes", 200),
    ("a100-80g", "HDR InfiniBand 200 Gb/s bidirectional per GPU", 200),
    ("a100-80g", "200 Gb/s per direction per GPU, RoCE", 200),
    ("a100-80g", "InfiniBand 25 GB/s unidirectional per GPU", 200),
    # units without their second, and names that are no rates
    ("a100-80g", "1 x 100Gb NIC, NVLink-connected", 12.5),
    ("a100-80g", "8x 200 Gb HDR", 200),
    ("ascend-910b", "HCCS; 8*200GE RoCE", 200),
    ("h100", "GCP a3-highgpu-8g, 200 Gbps per GPU GPUDirect-TCPX", 200),
    ("h100", "8x 400G Broadcom Thor2, NVLink", 400),
    ("a100-80g", "eight Mellanox 200Gbps HDR Infiniband HCAs per node", 200),
    ("a100-80g", "each node has 8 GPUs and 4 NICs with 200 Gbps", 100),
    ("a100-80g", "8 GPUs per node 4 HDR NICs", 100),
    ("gb200", "NVL72, 4x 400 Gb/s per tray", 400),
    # several places in one text
    ("h100", "NVLink 900 GB/s intra-node, InfiniBand 400 Gb/s per GPU inter-node", 400),
    ("h100", "Intra-node: NVSwitch (900 GB/s). Inter-node: 8x 400 Gb/s", 400),
    ("h100", "400 Gb/s per GPU InfiniBand and 100 Gb/s storage network", 400),
    ("h100", "3.35 TB/s HBM3; 400 Gb/s per GPU InfiniBand", 400),
    ("h100", "25 GbE management, 8x NDR for compute", 400),
    # nothing is stated
    ("a100-80g", "", 0),
    ("a100-80g", "NVLink/NVSwitch intra-node (8 GPU); inter-node fabric not stated", 0),
    ("a100-80g", "NVSwitch intra-node; InfiniBand between DGX-A100", 0),
    ("gb200", "GB200 NVL72 NVLink5 domain", 0),
    ("tpu-v5e", "4 slice(s) of v5e-256 (16x16 2D torus ICI); DCN between slices", 0),
    ("tpu-v7x", "3D torus ICI 4x8x8", 0),
    ("ascend-910b", "single server, HCCS", 0),
    ("a100-80g", "8x A100 80G NVLink per node", 0),
]  # fmt: skip
"""Gb/s of one device between servers, in one direction."""

INSIDE = [
    ("h100", "NVLink 900 GB/s", 450),
    ("h100", "NVLink4, 900 GB/s bidirectional per GPU", 450),
    ("h100", "NVLink 450 GB/s per direction", 450),
    ("h100", "NVLink 450 GB/s", 450),
    ("h100", "nvlink 900gb/s, infiniband 400gb/s per gpu", 450),
    ("h100", "18 NVLinks at 50 GB/s each", 450),
    ("h100", "NVLink 400 GB/s (H800)", 200),
    ("a100-80g", "600GB/s NVSwitch within the node", 300),
    ("a100-80g", "PCIe Gen4 only, no NVLink", 32),
    ("a100-80g", "PCIe 4.0 x16; 100 GbE", 32),
    ("h100", "PCI Express 5.0 within the server", 64),
    ("h100", "NVLink inside, PCIe Gen5 to the host", 0),
    ("ascend-910b", "HCCS 392 GB/s", 28),
    ("ascend-910b", "HCCS 56 GB/s per link", 28),
    ("mi300x", "Infinity Fabric 896 GB/s per GPU", 64),
    ("tpu-v5p", "ICI 4800 Gbps per chip", 540),
]
"""GB/s of one device inside its server, of a mesh on one link."""


@pytest.mark.parametrize(("name", "text", "gbits"), PORTS)
def test_a_spelling_of_ports_says_one_rate(name: str, text: str, gbits: float) -> None:
    found = read_links(text, machine(name))
    assert found.port_bytes_per_s == pytest.approx(gbits * GBIT), found
    assert found.unread == ()


@pytest.mark.parametrize(("name", "text", "gbytes"), INSIDE)
def test_a_spelling_of_links_inside_says_one_rate(name: str, text: str, gbytes: float) -> None:
    found = read_links(text, machine(name))
    assert found.link_bytes_per_s == pytest.approx(gbytes * 1e9), found
    assert found.unread == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("200-400 Gb/s per GPU InfiniBand", "0-400 Gb/s"),
        ("latency 2 us; HDR InfiniBand", "2 us"),
        ("PCIe at 16 GT/s, HDR InfiniBand", "16 GT/s"),
        ("90 Tb/s per GPU InfiniBand", "90 Tb/s"),
        ("400 Gb/s per GPU InfiniBand; 200 Gb/s per GPU inter-node", "200 Gb/s"),
        ("link of 3 Mb/s", "3 Mb/s"),
        ("NVSwitch 2.4 TB/s, HDR", "2.4 TB/s"),
    ],
)
def test_a_number_with_a_unit_that_is_not_understood_is_named(text: str, said: str) -> None:
    (unread,) = read_links(text, machine("a100-80g")).unread
    assert said in unread
    assert unread.endswith("is not understood")


def test_the_hosts_of_a_pod_are_not_the_pod() -> None:
    found = read_links("DCN 200 Gbps per host", machine("tpu-v5p"))
    assert found.port_bytes_per_s == 0
    assert "200 Gbps" in found.unread[0]


@pytest.mark.parametrize(
    ("text", "assumed"),
    [
        ("100 Gb/s InfiniBand", "ports that a rate is of"),
        ("HDR100", "number of ports"),
        ("600 GB/s", "place of links"),
    ],
)
def test_what_stands_in_for_a_noun_is_an_assumption(text: str, assumed: str) -> None:
    assert assumed in read_links(text, machine("a100-80g")).assumed


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("4x A100 NVLink per node", 4),
        ("4 GPUs per server, HDR", 4),
        ("nodes of 8, HDR", 0),
        ("2-GPU nodes", 2),
        ("8x A100 per host", 0),
        ("8x HDR per node", 0),
        ("four A100-SXM per node", 4),
    ],
)
def test_devices_of_a_server_are_counted_where_they_are_fewer(text: str, devices: int) -> None:
    assert read_links(text, machine("a100-80g")).server == devices


def test_a_rate_of_a_server_is_shared_by_the_devices_that_the_row_states() -> None:
    known = machine("a100-80g")
    whole, half = read_links("400 Gb/s per node", known), read_links("400 Gb/s per node", known, 4)
    assert half.port_bytes_per_s == 2 * whole.port_bytes_per_s == 100 * GBIT


@pytest.mark.parametrize("text", ["x" * 10**6, "8x" * 10**5, "1 Gb/s per " * 10**4, "(" * 10**5])
def test_a_hostile_text_is_read_in_no_time(text: str) -> None:
    read_links(text, machine("a100-80g"))


def test_more_than_sixty_spellings_are_held() -> None:
    assert len(PORTS) + len(INSIDE) >= 60
