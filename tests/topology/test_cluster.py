import json
import math
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from topology import Cluster, ClusterError, Tier, TierKind, cluster_names, named_cluster

pytestmark = pytest.mark.fast

MACHINES = [(name, devices) for name in cluster_names() for devices in (1, 2, 8, 16, 64)]


@pytest.mark.parametrize(("name", "devices"), MACHINES)
def test_a_cluster_survives_json_and_pickle(name: str, devices: int) -> None:
    cluster = named_cluster(name, devices)
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster
    assert pickle.loads(pickle.dumps(cluster)) == cluster
    assert hash(cluster) == hash(named_cluster(name, devices))


@pytest.mark.parametrize(("name", "devices"), MACHINES)
def test_the_tiers_multiply_to_the_devices(name: str, devices: int) -> None:
    cluster = named_cluster(name, devices)
    assert cluster.devices == devices == math.prod(tier.size for tier in cluster.tiers)
    for tier in cluster.tiers:
        assert 0 < tier.bandwidth_bytes_per_s <= tier.nominal_bandwidth_bytes_per_s
        assert tier.latency_s > 0
    assert 0 < cluster.usable_memory_bytes < cluster.chip.memory_bytes


def test_records_cannot_be_changed() -> None:
    cluster = named_cluster("dgx-a100", 8)
    with pytest.raises(FrozenInstanceError):
        cluster.name = "other"  # type: ignore[misc]


def test_a_faster_tier_is_faster_and_nothing_else_changes() -> None:
    cluster = named_cluster("atlas-800-9000", 16)
    faster = cluster.with_bandwidth("ring", 2)
    assert faster.tiers[0] == cluster.tiers[0]
    assert faster.tiers[2] == cluster.tiers[2]
    assert faster.tiers[1].bandwidth_bytes_per_s == pytest.approx(38.6e9)
    assert faster.tiers[1].shared_capacity_bytes_per_s == pytest.approx(128e9)
    assert faster.with_bandwidth("ring", 0.5) == cluster


@pytest.mark.parametrize(("tier", "factor"), [("rack", 2.0), ("card", 0.0), ("card", math.inf)])
def test_a_wrong_what_if_is_an_error(tier: str, factor: float) -> None:
    with pytest.raises(ClusterError):
        named_cluster("dgx-a100", 8).with_bandwidth(tier, factor)


def test_tiers_that_cannot_be_are_errors() -> None:
    tier = Tier("card", 2, TierKind.PAIRS, 1e9, 1e9, 1e-6)
    with pytest.raises(ClusterError, match="size 0"):
        replace(tier, size=0)
    with pytest.raises(ClusterError, match="3 members"):
        replace(tier, size=3)
    cluster = named_cluster("dgx-a100", 8)
    with pytest.raises(ClusterError, match="own name"):
        replace(cluster, tiers=(tier, tier))
    with pytest.raises(ClusterError, match="at least one tier"):
        replace(cluster, tiers=())


@pytest.mark.parametrize("spoil", ["chip", "tiers", "extra"])
def test_a_spoilt_record_is_told_as_such(spoil: str) -> None:
    record = named_cluster("dgx-a100", 16).to_dict()
    if spoil == "extra":
        record["extra"] = 1
    else:
        del record[spoil]
    with pytest.raises(ClusterError, match="the record is not a cluster"):
        Cluster.from_dict(record)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "x", None])
def test_a_spoilt_number_is_told_with_its_name(value: object) -> None:
    whole = named_cluster("dgx-h100", 16).to_dict()
    assert Cluster.from_dict(whole).host_memory_bytes
    records = (whole, whole["chip"], whole["chip"]["peak_flops"], whole["tiers"][0])
    names = ("host_memory_bytes", "host_bandwidth_bytes_per_s", "bfloat16", "latency_s")
    for record, name in zip(records, names, strict=True):
        own = record[name]
        record[name] = value
        if value is None and name.startswith("host"):
            Cluster.from_dict(whole)
        else:
            with pytest.raises(ClusterError, match=f"{name} is"):
                Cluster.from_dict(whole)
        record[name] = own


def test_a_cluster_says_what_it_is() -> None:
    assert str(named_cluster("atlas-800t-a2", 16)) == (
        "atlas-800t-a2: 16 x ascend_910b3 (server x2 switch 22.5 GB/s, card x8 full_mesh 18.2 GB/s)"
    )
