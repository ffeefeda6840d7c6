import pytest

from topology import ClusterError, cluster_names, named_chip, named_cluster
from topology.catalogue import named_machine


@pytest.mark.parametrize(
    ("name", "devices", "tiers"),
    [
        ("atlas-800-9000", 1, "card 1"),
        ("atlas-800-9000", 2, "card 2"),
        ("atlas-800-9000", 4, "card 4"),
        ("atlas-800-9000", 8, "ring 2, card 4"),
        ("atlas-800-9000", 24, "server 3, ring 2, card 4"),
        ("atlas-800t-a2", 3, "card 3"),
        ("atlas-800t-a2", 8, "card 8"),
        ("atlas-800t-a2", 1024, "server 128, card 8"),
        ("dgx-a100", 2, "card 2"),
        ("dgx-h100", 16, "server 2, card 8"),
        ("cloudmatrix384", 4, "card 4"),
        ("cloudmatrix384", 768, "server 48, card 16"),
        ("atlas-200t-a2-box16", 32, "server 2, module 2, card 8"),
        ("dgx-1v", 8, "quad 2, card 4"),
        ("gb200-nvl72", 144, "server 2, card 72"),
    ],
)
def test_a_job_fills_the_machine_from_the_innermost_tier(
    name: str, devices: int, tiers: str
) -> None:
    cluster = named_cluster(name, devices)
    assert ", ".join(f"{tier.name} {tier.size}" for tier in cluster.tiers) == tiers


@pytest.mark.parametrize("name", cluster_names())
@pytest.mark.parametrize("devices", [-8, 0])
def test_a_job_needs_devices(name: str, devices: int) -> None:
    with pytest.raises(ClusterError, match=f"^{devices} devices"):
        named_cluster(name, devices)


@pytest.mark.parametrize(
    ("name", "devices", "fault"),
    [
        ("atlas-800-9000", 3, "cannot take 3 devices of one server"),
        ("atlas-800-9000", 6, "cannot take 6 devices of one server"),
        ("atlas-800-9000", 12, "12 devices do not fill whole servers"),
        ("atlas-800t-a2", 9, "9 devices do not fill whole servers"),
        ("dgx-a100", 20, "20 devices do not fill whole servers"),
        ("cloudmatrix384", 3, "cannot take 3 devices of one server"),
        ("cloudmatrix384", 784, "784 devices, but the machine has 768"),
    ],
)
def test_devices_that_the_machine_does_not_allow_are_errors(
    name: str, devices: int, fault: str
) -> None:
    with pytest.raises(ClusterError, match=fault) as caught:
        named_cluster(name, devices)
    assert "use 1, 2, " in caught.value.fix
    assert str(caught.value).count("\n") == 2


def test_an_error_names_the_numbers_that_are_allowed() -> None:
    with pytest.raises(ClusterError) as caught:
        named_cluster("atlas-800-9000", 12)
    assert str(caught.value) == (
        "12 devices do not fill whole servers\n"
        "  at:  cluster 'atlas-800-9000' of servers with 8 devices\n"
        "  fix: use 1, 2, 4, 8 or a multiple of 8"
    )


def test_an_unknown_name_lists_the_known_ones_and_the_closest() -> None:
    with pytest.raises(ClusterError) as caught:
        named_cluster("Atlas-800T", 8)
    assert "unknown cluster 'Atlas-800T'" in str(caught.value)
    assert "did you mean 'atlas-800t-a2'?" in caught.value.fix
    for name in cluster_names():
        assert name in caught.value.fix
    with pytest.raises(ClusterError, match=r"unknown chip '\.\./clusters/dgx-a100'"):
        named_chip("../clusters/dgx-a100")


def test_the_planner_sees_of_the_first_ascend_generation_what_was_always_planned_with() -> None:
    server, ring, card = named_cluster("atlas-800-9000", 16).tiers
    assert (server.kind.value, ring.kind.value, card.kind.value) == ("switch", "pairs", "full_mesh")
    assert server.bandwidth_bytes_per_s == 12e9
    assert ring.bandwidth_bytes_per_s == 19.3e9
    assert ring.shared_capacity_bytes_per_s == 64e9
    assert card.bandwidth_bytes_per_s == 30e9
    assert [tier.latency_s for tier in (server, ring, card)] == pytest.approx([8e-6, 2.5e-6, 2e-6])
    assert [tier.transport for tier in (server, ring, card)] == ["ROCE", "PCIE", "HCCS"]


@pytest.mark.parametrize("name", cluster_names())
def test_every_bundled_machine_plans_two_servers_or_says_why_not(name: str) -> None:
    machine = named_machine(name)
    size = machine.file.servers[machine.entries[0].use].devices
    cluster = machine.cluster(2 * size)
    assert cluster.devices == 2 * size
    assert cluster.tiers[0].size == 2
    graph = machine.links(2 * size)
    assert graph.devices == 2 * size
