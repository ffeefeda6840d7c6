"""Software profiles: which a target has, what they say, and that plans are priced with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.software import (
    AUTO,
    GENERIC,
    basis_notes,
    is_basis_note,
    kernel_class,
    software_names,
    software_profile,
    usual_software,
)
from ir.ops import lookup
from planner.request import SearchRequest
from planner.requests.options.searches import SOFTWARE
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_chip, named_cluster
from topology.cluster import Cluster

pytestmark = pytest.mark.fast

A100, H100, ASCEND = (named_chip(n) for n in ("a100_sxm_80g", "h100_sxm_80g", "ascend_910b3"))


@pytest.mark.parametrize("name", software_names())
@pytest.mark.parametrize("chip", [A100, H100, ASCEND, named_chip("tpu_v5e")])
def test_constants_keep_their_physical_limits(name: str, chip: object) -> None:
    found = software_profile(name, "torch", chip)  # type: ignore[arg-type]
    assert found.name == name
    assert found.products >= 1.0
    assert min(found.attention, found.experts, found.streams) > 0
    shares = found.gathers_shown, found.sync_shown, found.tensor_hidden
    assert all(0 <= share <= 1 for share in shares)
    assert 0 <= found.host_s < 1e-3
    assert found.is_neutral == (name == "generic")


def test_the_usual_software_follows_target_and_machine() -> None:
    usual = [usual_software(target, chip) for target in ("torch", "jax") for chip in (A100, H100)]
    assert usual == ["fsdp", "torchtitan", "maxtext", "maxtext"]
    assert usual_software("mindspore", ASCEND) == "mindspore"
    assert usual_software("generic", H100) == GENERIC.name
    assert software_profile(AUTO, "torch", A100) == software_profile("fsdp", "torch", A100)
    assert software_profile("fsdp", "torch", A100) != software_profile("fsdp", "torch", H100)


def test_software_that_nobody_ran_on_a_chip_has_the_constants_of_its_generation() -> None:
    found = software_profile("mindspeed", "torch", H100)
    other = software_profile("mindformers", "torch", H100)
    assert found.generation == "hopper"
    assert (found.products, found.streams) == (other.products, other.streams)
    assert found.host_s > other.host_s == 0, "a compiled graph is issued as a whole"


def test_a_name_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no software profile 'megatrn'(.|\n)*fix: .*torchtitan"):
        software_profile("megatrn", "torch", A100)


def test_kernels_are_told_apart_by_what_computes_them() -> None:
    kinds = ("MatMul", "Conv", "Attention", "ExpertMatMul", "Dispatch", "Softmax")
    classes = [kernel_class(lookup(kind)) for kind in kinds]
    assert classes == ["products", "products", "attention", "experts", "experts", "streams"]


def test_notes_say_what_a_step_counts() -> None:
    plain = basis_notes(H100, GENERIC)
    assert len(plain) == 1
    notes = basis_notes(H100, software_profile("torchtitan", "torch", H100))
    assert notes[0] == plain[0]
    assert notes[1].startswith("software profile torchtitan, fitted to runs on hopper: time of")
    assert all(is_basis_note(note) for note in notes)
    assert not is_basis_note("3 operators are repeated")


def test_the_option_names_the_profiles_that_there_are() -> None:
    assert (AUTO, *software_names()) == SOFTWARE


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_cores_that_carry_messages_let_no_more_of_them_hide(overlap: float) -> None:
    chip = replace(H100, overlap=overlap)
    found = software_profile("generic", "torch", chip)
    assert found.gathers_shown == found.sync_shown == 1.0 - overlap
    fitted, before = (software_profile("torchtitan", "torch", c) for c in (chip, H100))
    assert fitted.gathers_shown == max(before.gathers_shown, 1.0 - overlap)
    assert fitted.host_s == before.host_s
    assert "as measured of the machine" in basis_notes(chip, found)[1]


def test_a_plan_hides_nothing_where_cores_carry_all_messages() -> None:
    machine = named_cluster("dgx-h100", 2)
    slow = replace(machine, chip=replace(machine.chip, overlap=0.0))
    asked = SearchRequest(
        training=True, zero="3", degrees=(("dp", 2),), pipeline="off", profile="generic"
    )
    free, held = (search(mlp(8, 1024, 4096, 4096), each, asked) for each in (machine, slow))
    assert sum(free.estimate.hidden_by_cause.values()) > 0.0
    assert sum(held.estimate.hidden_by_cause.values()) == pytest.approx(0.0, abs=1e-15)
    assert held.estimate.step_time_s >= free.estimate.step_time_s


def test_files_of_plans_have_the_share_where_it_is_not_all() -> None:
    machine = named_cluster("dgx-h100", 2)
    assert "overlap" not in machine.to_dict()["chip"]
    slow = replace(machine, chip=replace(machine.chip, overlap=0.25))
    assert Cluster.from_dict(slow.to_dict()) == slow
