"""The helper that writes JAX functions as StableHLO text, where JAX is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

from importers.jax_trace import main, traced  # noqa: E402
from tests.data.jax.blocks import BLOCKS  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "jax"
MODULE = """
import jax, jax.numpy as jnp

def forward(params, x):
    return jnp.tanh(x @ params["w"])

def loss(params, x):
    return forward(params, x).sum()

def example():
    shape = jax.ShapeDtypeStruct
    return {"w": shape((3, 2), jnp.float32)}, shape((4, 3), jnp.float32)
"""


@pytest.mark.parametrize("name", BLOCKS)
def test_the_files_are_what_the_helper_writes(name: str) -> None:
    if jax.__version__ != "0.10.2":
        pytest.skip("another JAX writes other text")
    function, arguments = BLOCKS[name]
    assert traced(function, arguments) == (DATA / f"{name}.mlir").read_text()


def test_the_command_writes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny_net.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["tiny_net:forward"]) == 0
    assert '"name": "w", "role": "parameter"' in (tmp_path / "model.mlir").read_text()
    assert main(["tiny_net:loss", "--gradients", "--output", "step.mlir"]) == 0
    assert '"gradients": {"w": 1}' in (tmp_path / "step.mlir").read_text()


@pytest.mark.parametrize(
    "words", [["json"], ["no_such_module:f"], ["json:nothing"], ["json:loads", "--parameters", "x"]]
)
def test_what_cannot_be_traced_is_said(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err
