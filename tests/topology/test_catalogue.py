import pytest

import data
from topology import ClusterError, cluster_names, named_chip, named_cluster, read_cluster


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


OWN = """
schema_version: 1
name: ours
chip: Ascend910B3
tiers:
  - {name: rack, size: 3, kind: switch, bandwidth: 100 Gb/s, efficiency: 0.9, latency: 10 us}
  - {name: card, size: 4, kind: full_mesh, bandwidth: 28 GB/s, efficiency: 65 %, latency: 2 us}
"""


def test_a_file_of_the_user_may_state_bare_numbers() -> None:
    cluster = read_cluster(OWN, "ours.yaml")
    assert cluster.devices == 12
    assert cluster.chip.name == "ascend_910b3"
    assert cluster.tiers[0].bandwidth_bytes_per_s == pytest.approx(11.25e9)
    assert read_cluster(OWN, "ours.yaml", 3).devices == 3


def test_a_chip_may_stand_in_the_file_itself() -> None:
    chip = data.read_text("chips", "v100_sxm2_32g.yaml").replace("\n", "\n  ")
    text = OWN.replace("chip: Ascend910B3", f"chip:\n  {chip}")
    assert read_cluster(text, "ours.yaml").chip == named_chip("v100_sxm2_32g")


def test_a_machine_of_open_size_needs_a_number_of_devices() -> None:
    with pytest.raises(ClusterError, match="the size of tier 'rack' is open"):
        read_cluster(OWN.replace("size: 3, ", ""), "ours.yaml")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("name: ours", "name: ours\nnames: ours", "names: Extra inputs"),
        ("schema_version: 1", "schema_version: 2", "schema_version: "),
        ("100 Gb/s", "100 Gib/s", "tiers.0.bandwidth: Value error, unknown unit 'Gib/s'"),
        ("100 Gb/s", "0 Gb/s", "is not above zero"),
        ("latency: 10 us", "latency: 10", "'10' has no unit"),
        ("size: 4, ", "", "only the outermost tier may leave its size open"),
        ("name: card", "name: rack", "every tier needs its own name, not rack, rack"),
        ("kind: full_mesh", "kind: pairs", "a tier of pairs joins two halves"),
        ("kind: full_mesh", "kind: torus", "tiers.1.kind: "),
        ("latency: 2 us", "latency: 2 us, shared_capacity: 1 GB/s", "only a tier of pairs"),
        ("size: 3, ", "size: 3, max_size: 4, ", "max_size is for a tier whose size is open"),
        ("Ascend910B3", "Ascend910B", "unknown chip 'Ascend910B'"),
        ("tiers:", "tiers: [", "the text is not YAML"),
    ],
)
def test_a_fault_in_a_file_is_told_with_its_place(old: str, new: str, fault: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read_cluster(OWN.replace(old, new), "ours.yaml")
    assert fault in caught.value.what
    assert str(caught.value).count("\n") == 2


def test_all_faults_of_a_file_are_told_at_once() -> None:
    text = OWN.replace("100 Gb/s", "100").replace("28 GB/s", "28 GB").replace("2 us", "2 MB")
    with pytest.raises(ClusterError) as caught:
        read_cluster(text, "ours.yaml")
    for place in ("tiers.0.bandwidth", "tiers.1.bandwidth", "tiers.1.latency"):
        assert place in caught.value.what


def test_devices_that_do_not_fill_inner_tiers_are_an_error() -> None:
    inner = "{name: die, size: 2, kind: switch, bandwidth: 270 GB/s, efficiency: 1, latency: 1 us}"
    with pytest.raises(ClusterError, match="3 devices do not fill the tiers"):
        read_cluster(f"{OWN}  - {inner}\n", "ours.yaml", 3)
