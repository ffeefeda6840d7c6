from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives import Collective, CollectiveModel, forced
from costmodel.collectives.nccl_constants import Constants
from costmodel.collectives.nccl_tuning import NcclGroup, expected_curve, selection
from topology import ClusterError, named_cluster, tier_mesh
from topology.cluster import Cluster
from topology.library import Library, library_names, named_library

pytestmark = pytest.mark.fast

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
A2A = Collective.ALL_TO_ALL
MIB = 2**20


def model(cluster: Cluster) -> CollectiveModel:
    return CollectiveModel(cluster, tier_mesh(cluster))


def switch_bytes(generation: str, kind: Collective, ranks: int) -> list[tuple[str, str, float]]:
    found = selection(NcclGroup(generation, 1, ranks), kind, "auto")
    return [(algorithm, protocol, start) for start, algorithm, protocol in found]


@pytest.mark.parametrize(
    ("generation", "ranks", "low", "high"),
    [("ampere", 2, 1, 2), ("ampere", 4, 1, 2), ("blackwell", 2, 4, 8), ("blackwell", 4, 4, 8)],
)
def test_small_groups_go_from_ll_to_simple_where_measurements_jump(
    generation: str, ranks: int, low: int, high: int
) -> None:
    """Measured all-gathers take much longer at the next power of two of bytes.

    Source: aiconfigurator's tables of NCCL 2.27.3 (A100) and 2.29.2 (B200).
    """
    first, second = switch_bytes(generation, AG, ranks)
    assert first[:2] == ("ring", "ll")
    assert second[:2] == ("ring", "simple")
    assert low * MIB < second[2] <= high * MIB


def test_eight_gpus_take_ll128_between() -> None:
    protocols = [protocol for _, protocol, _ in switch_bytes("ampere", AG, 8)]
    assert protocols == ["ll", "ll128", "simple"]


def test_switches_add_up_from_five_gpus_on() -> None:
    assert switch_bytes("hopper", AR, 8)[-1][0] == "nvls"
    assert switch_bytes("hopper", AR, 4)[-1][0] == "ring"
    assert switch_bytes("ampere", AR, 8)[-1][0] == "ring"
    assert all(algorithm == "ring" for algorithm, *_ in switch_bytes("hopper", AG, 8))


def test_many_servers_take_a_tree_for_few_bytes() -> None:
    found = selection(NcclGroup("ampere", 32, 8), AR, "auto")
    assert found[0][1:] == ("tree", "ll")
    assert found[-1][1:] == ("ring", "simple")


def test_what_nccl_expects_of_a_ring() -> None:
    """7 steps of 3.4 us after 8.4 us; 7 / 8 of the bytes at 240 GB/s."""
    curve = expected_curve(NcclGroup("ampere", 1, 8), AG, "ring", "simple")
    assert curve is not None
    assert curve.time_s(1e9) == pytest.approx((8.4 + 7 * 3.4) * 1e-6 + 7 / 8 / 240)
    assert expected_curve(NcclGroup("ampere", 1, 8), AG, "tree", "simple") is None


def test_a_forced_algorithm_is_taken_and_an_impossible_one_is_not() -> None:
    group = NcclGroup("hopper", 1, 8)
    assert {a for _, a, _ in selection(group, AR, "tree")} == {"tree"}
    assert selection(group, AR, "ring/ll128") == ((0.0, "ring", "ll128"),)
    assert {a for _, a, _ in selection(group, AG, "nvls")} == {"ring"}
    cluster = named_cluster("dgx-h100", 8)
    ring, auto = model(forced(cluster, "card", "ring")), model(cluster)
    assert ring.time_s(AR, 1e9, (0,)) > 1.15 * auto.time_s(AR, 1e9, (0,))
    with pytest.raises(ClusterError, match="use one of auto, ring, tree, nvls"):
        forced(cluster, "card", "nhr")


@pytest.mark.parametrize(
    ("machine", "kind", "gpus", "nbytes", "measured_s"),
    [
        ("dgx-a100", AG, 2, 2**20, 19.95e-6),
        ("dgx-a100", AG, 8, 2**24, 135.0e-6),
        ("dgx-a100", AG, 8, 2**29, 2288.0e-6),
        ("dgx-a100", AR, 4, 2**24, 183.5e-6),
        ("dgx-a100", AR, 8, 2**29, 4225.9e-6),
        ("dgx-h100", AR, 8, 2**29, 2111.1e-6),
        ("dgx-h100", A2A, 8, 2**29, 1490.4e-6),
        ("hgx-h200", RS, 8, 2**17, 11.8e-6),
        ("hgx-b200", AR, 8, 2**29, 1334.6e-6),
        ("hgx-b200", A2A, 2, 2**27, 224.6e-6),
        ("gb200-nvl72", AG, 4, 2**28, 370.2e-6),
        ("dgx-1v", AR, 2, 2**30, 47610e-6),
    ],
)
def test_bundled_machines_agree_with_measurements(
    machine: str, kind: Collective, gpus: int, nbytes: int, measured_s: float
) -> None:
    """Source: aiconfigurator's tables of NCCL; vTrain's of V100."""
    found = model(named_cluster(machine, gpus)).time_s(kind, nbytes, (0,))
    assert found == pytest.approx(measured_s, rel=0.2)


def test_a_port_for_every_gpu_carries_the_rings_of_a_server() -> None:
    cluster = named_cluster("dgx-h100", 32)
    of = model(cluster)
    port = cluster.tiers[0].nominal_bandwidth_bytes_per_s
    n = 1e10
    assert of.time_s(AG, n, (0, 1)) >= 31 / 32 * n / (8 * port)
    assert of.time_s(AG, n, (0,)) >= 3 / 4 * n / port
    # An all-to-all sends 24 of 32 pieces over the own port.
    assert of.time_s(A2A, n, (0, 1)) >= 24 / 32 * n / port


@given(st.sampled_from(library_names()))
def test_bundled_constants_are_known_and_above_zero(name: str) -> None:
    library = named_library(name)
    constants = Constants.of(library.constants)
    assert 1e-6 < constants.ll_start_s < 1e-4
    assert constants.simple_share is not None
    assert 0.5 < constants.simple_share < 1
    assert constants.ll_share < constants.simple_share


def test_unknown_libraries_and_constants_are_errors() -> None:
    with pytest.raises(ClusterError, match="did you mean 'dgx-h100'"):
        named_library("dgx-h10")
    with pytest.raises(ClusterError, match="communication library 'mpi'"):
        Library("mpi")
    with pytest.raises(ClusterError, match="constants of the library: warp"):
        Constants.of({"warp": 1.0})
    with pytest.raises(ClusterError, match="constants of the library: ll_share"):
        Constants.of({"ll_share": -1.0})


def test_a_machine_without_measured_constants_has_the_efficiencies_of_its_links() -> None:
    cluster = named_cluster("dgx-a100", 8)
    plain = replace(cluster, library=Library("nccl", "ampere"))
    n, port = 1e11, cluster.tiers[0].bandwidth_bytes_per_s
    ring = 7 * n / 8 / port
    own = 0.6 * n / 8 / cluster.tiers[0].nominal_bandwidth_bytes_per_s
    assert model(plain).time_s(AG, n, (0,)) == pytest.approx(ring + own, rel=1e-2)
