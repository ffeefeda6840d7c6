"""The exported modules and the scripts that use them, as far as a machine without JAX and torch
goes: the frameworks' classes are records here.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from exporters import jax, torch
from ir.plan import Plan

pytestmark = pytest.mark.fast

EXAMPLES = Path(__file__).parents[2] / "examples"

Mesh = namedtuple("Mesh", "devices names")  # noqa: PYI024
Sharding = namedtuple("Sharding", "mesh spec")  # noqa: PYI024


def loaded(text: str) -> SimpleNamespace:
    """A generated module."""
    names: dict[str, Any] = {}
    exec(compile(text, "generated.py", "exec"), names)
    return SimpleNamespace(**names)


@pytest.fixture
def fake_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module for JAX calls, as records."""
    module = ModuleType("jax")
    parts = {
        "devices": lambda: [f"gpu{i}" for i in range(8)],
        "device_put": lambda value, sharding: (value, sharding.spec),
        "sharding": SimpleNamespace(
            Mesh=Mesh, NamedSharding=Sharding, PartitionSpec=lambda *entries: entries
        ),
        "lax": SimpleNamespace(with_sharding_constraint=lambda value, s: (value, s.spec)),
    }
    module.__dict__.update(parts)
    monkeypatch.setitem(sys.modules, "jax", module)


@pytest.mark.usefixtures("fake_jax")
def test_the_module_for_jax_builds_the_mesh_in_the_order_of_the_ranks(plan: Plan) -> None:
    order = (3, 2, 1, 0, 7, 6, 5, 4)
    module = loaded(jax.to_python(replace(plan, rank_order=order)))
    mesh = module.mesh()
    assert mesh.names == ("server", "card0", "card1")
    assert mesh.devices.shape == (2, 2, 2)
    assert mesh.devices.ravel().tolist() == [f"gpu{i}" for i in order]
    with pytest.raises(ValueError, match="planned for 8 devices, not for 3"):
        module.mesh(["a", "b", "c"])


@pytest.mark.usefixtures("fake_jax")
def test_the_module_for_jax_lays_out_parameters_and_results(plan: Plan) -> None:
    module = loaded(jax.to_python(plan))
    mesh, name = module.mesh(), "m.layers.0.proj.weight"
    assert module.place({"0": 5}, mesh, lambda n: f"m.layers.{n}.proj.weight") == {
        "0": (5, (("server", "card0"), ("card1",)))
    }
    with pytest.raises(KeyError, match="such as 'other'"):
        module.place({"other": 5}, mesh)
    assert module.use(name, 5, mesh) == (5, (None, ("card1",)))
    assert module.constrain("y", 5, mesh) == (5, (("server", "card0", "card1"), None, None))
    assert module.constrain("h0", 5, mesh) == 5, "terms of a sum"
    assert module.operand("op0", 1, 5, mesh) == (5, (None, ("card0", "card1")))
    assert module.operand("op0", 7, 5, mesh) == 5


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module for torch calls, as records."""
    module, distributed = ModuleType("torch"), ModuleType("torch.distributed")
    mesh, tensor = ModuleType("torch.distributed.device_mesh"), ModuleType("torch.d.tensor")
    module.__dict__.update(tensor=np.array, distributed=distributed)
    distributed.__dict__.update(is_initialized=lambda: True, get_world_size=lambda: 8)
    mesh.__dict__.update(DeviceMesh=lambda kind, ranks, mesh_dim_names: (ranks, mesh_dim_names))
    kinds: dict[str, Any] = {
        "Shard": lambda dim: f"S{dim}", "Replicate": lambda: "R", "Partial": lambda: "P",
    }  # fmt: skip
    tensor.__dict__.update(kinds)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setitem(sys.modules, "torch.distributed.device_mesh", mesh)
    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", tensor)


class Value:
    """A DTensor that knows only where it went."""

    def redistribute(self, placements: list[str]) -> list[str]:
        return placements


@pytest.mark.usefixtures("fake_torch")
def test_the_module_for_torch_builds_mesh_and_placements(plan: Plan) -> None:
    module = loaded(torch.to_python(plan))
    ranks, names = module.device_mesh()
    assert ranks.shape == (2, 2, 2)
    assert ranks.ravel().tolist() == list(range(8))
    assert names == ("server", "card0", "card1")
    value, name = Value(), "m.layers.0.proj.weight"
    assert module.placements(module.PARAMETERS[name]) == ["S0", "S0", "S1"]
    assert module.use(name, value) == ["R", "R", "S1"]
    assert module.constrain("y", value) == ["S0", "S0", "S0"]
    assert module.constrain("h0", value) is value, "terms of a sum"
    assert module.placements(module.ACTIVATIONS["h0"]) == ["R", "P", "P"]
    assert module.operand("op0", 1, value) == ["R", "S1", "S1"]
    assert module.operand("op0", 7, value) is value


@pytest.mark.usefixtures("fake_torch")
def test_a_job_of_another_size_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(torch.to_python(plan))
    monkeypatch.setattr(sys.modules["torch.distributed"], "get_world_size", lambda: 4)
    with pytest.raises(ValueError, match="planned for 8 ranks, not for 4"):
        module.device_mesh()


def test_the_script_for_jax_calls_what_the_module_has(plan: Plan) -> None:
    text = (EXAMPLES / "run_on_jax" / "train.py").read_text()
    compile(text, "train.py", "exec")
    module = loaded(jax.to_python(plan))
    called = {w.split("(")[0] for w in text.split("plan.")[1:] if "(" in w.split()[0]}
    assert {"use", "constrain"} <= called
    assert [w for w in called if not hasattr(module, w)] == []
    assert "import jax" in text


@pytest.mark.parametrize("name", ["gpt.py", "resnet.py"])
def test_the_script_for_torch_needs_one_call(name: str) -> None:
    text = (EXAMPLES / "run_on_torch" / name).read_text()
    compile(text, name, "exec")
    assert text.count("parallelize(") == 1
