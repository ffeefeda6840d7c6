"""What MODEL on the command line can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.facts import OpenDim
from importers.model_file import import_model_file, model_format
from tests.importers.configurations import SMALL

LLAMA = Path(__file__).parents[2] / "data" / "models" / "llama3_8b.onnx.gz"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL["llama"] | {"architectures": ["LlamaForCausalLM"]}))
    return path


def test_a_file_is_read_by_what_it_is(config: Path) -> None:
    assert import_model_file(LLAMA).name == "llama3_8b"
    assert import_model_file(config, {"sequence": 8}).name == "small"
    assert import_model_file(Path("gpt2"), {"sequence": 8}).name == "gpt2"


def test_a_file_says_what_it_is(config: Path) -> None:
    facts = model_format(config).facts(config)
    assert facts.producer == "sizes of LlamaForCausalLM"
    assert facts.opsets == {}
    assert facts.kinds["MatMul"] == 2 * 9 + 1
    assert facts.open_dims == (
        OpenDim("input_ids", 0, "batch"),
        OpenDim("input_ids", 1, "sequence"),
    )
    facts = model_format(LLAMA).facts(LLAMA)
    assert facts.opsets == {"ai.onnx": 20}
    assert (facts.kinds["MatMul"], facts.open_dims) == (289, ())


def test_a_file_named_like_a_published_model_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").write_bytes(b"no model")
    with pytest.raises(ModelError, match="gpt2 is not a complete ONNX file"):
        import_model_file(Path("gpt2"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt3", "did you mean 'gpt2'"),
        ("x" * 5000, "neither a file nor a published model 'x"),
        ("nosuch.onnx", "cannot read nosuch.onnx"),
        ("nosuch.json", "cannot read nosuch.json"),
        ("folder/gpt2", "cannot read folder/gpt2"),
        ("meta-llama/Llama-3-70B", "did you mean 'llama3-70b'"),
        ("llama3_8b.onnx.gz", "did you mean 'llama3-8b'"),
        ("./deepseekv3.json", "did you mean 'deepseek-v3'"),
    ],
)
def test_what_is_nowhere_is_said_to_be(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        import_model_file(Path(name))
    assert len(str(caught.value)) < 10_300


def test_constants_have_numbers_and_weights_have_none(config: Path) -> None:
    names = ["attention/causal_mask", "norm/two", "lm_head.weight"]
    found = model_format(config).numbers(config, names, {"sequence": 3})
    assert set(found) == {"attention/causal_mask", "norm/two"}
    assert found["norm/two"] == 2
    assert (found["attention/causal_mask"][0, 0] < 0).tolist() == [
        [False, True, True], [False, False, True], [False, False, False],
    ]  # fmt: skip


def test_a_torch_program_says_how_large_its_symbols_are() -> None:
    path = Path(__file__).parents[1] / "data" / "torch" / "dynamic.pt2"
    form = model_format(path)
    assert form.ranges(path, ()) == {"s27": "1..256", "s77": "2..64"}
    assert form.ranges(path, ("x.0", "s27")) == {}  # x.0 is another name of s77
