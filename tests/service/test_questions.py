"""`layouts`, `recipe` and `explain` of a service: word for word what the commands print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from importers.sizes import published
from planner.requests.errors import UserError
from tests.cli.conftest import planner
from tests.service.conftest import Hands
from tests.service.test_client import working

__all__ = ["planner"]
THERE = ("--server", "http://127.0.0.1:1")
JOB = ("--devices", 16, "--batch", 64, "--cluster", "h100")
RECIPE = """\
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8 \\
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --swiglu \\
  --ffn-hidden-size 11008 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16
"""


@pytest.fixture
def served(hands: Hands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hands]:
    monkeypatch.setattr("service.client.httpx.Client", lambda **_: hands.client)
    monkeypatch.setattr(hands.client, "close", lambda: None)
    with working(hands):
        yield hands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A recipe, and a model by its sizes."""
    (tmp_path / "train.sh").write_text(RECIPE)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(dict(published("bert-large").config)))
    return tmp_path


Case = tuple[Any, ...]


def told_by(run: Any, out: Path = Path("OUT")) -> object:
    """What was printed, folders aside; a store keeps the keys of objects in an order of its own."""
    text = run.out.replace(str(out), "OUT")
    return json.loads(text) if text.startswith("{") else text


CASES: dict[str, Case] = {
    "a recipe of a row": (
        "layouts", "llama3-8b", *JOB, "--recipe", "megatron", "--row", 2, "-o", "OUT",
    ),
    "layouts": ("layouts", "llama3-8b", *JOB),
    "layouts of a file": ("layouts", "mine/config.json", *JOB, "--hold", "tp=2"),
    "nothing fits": ("layouts", "llama3-70b", "--devices", 2, "--batch", 8, "--cluster", "h100"),
    "a recipe": ("recipe", "train.sh", "--cluster", "h100", "-o", "OUT"),
    "another framework": (
        "recipe", "train.sh", "--cluster", "h100", "--to", "torchtitan", "-o", "OUT",
    ),
    "another model": ("recipe", "train.sh", "--cluster", "h100", "--model", "mine/config.json"),
}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_service_answers_as_the_command_does(
    name: str, form: Case, served: Hands, planner: Callable[..., Any], files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    told = {}
    for where in ((), THERE):
        out = files / ("far" if where else "here")
        words = [out if word == "OUT" else word for word in CASES[name]]
        monkeypatch.chdir(files)
        run = planner(*words, *form, *where)
        written = {path.name: path.read_bytes() for path in sorted(out.glob("*"))}
        told[where] = (run.code, told_by(run, out), written, bool(run.err))
        assert bool(written) == ("OUT" in CASES[name])
    for here, far in zip(*told.values(), strict=True):
        assert here == far
    assert told[()][0] == (1 if name == "nothing fits" else 0)


@pytest.fixture
def plan(planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes) -> Path:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    assert planner("search", tmp_path / "mlp.onnx", "--devices", 4, "-o", tmp_path).code == 0
    return tmp_path / "plan.json"


@pytest.mark.fast
@pytest.mark.parametrize(
    "question",
    [(), ("--op", "FIRST"), ("--tensor", "up"), ("--why-not", "dp=4"), ("--sensitivity",)],
)
def test_explanations_are_those_of_the_command(
    question: Case, served: Hands, planner: Callable[..., Any], plan: Path
) -> None:
    first = json.loads(plan.read_text())["graph"]["ops"][0]["name"]
    question = tuple(first if word == "FIRST" else word for word in question)
    for form in ((), ("--json",)):
        here = planner("explain", plan, *question, *form)
        assert here.code == 0, here.err
        far = planner("explain", plan, *question, *form, *THERE)
        assert far.code == 0, far.err
        assert told_by(far) == told_by(here)


def test_what_is_wrong_is_told_before_a_job_begins(hands: Hands) -> None:
    plan = {"plan": "p_" + "0" * 32}
    assert hands.client.post("/v1/explanations", json=plan).status_code == 404
    file = {"name": "a.sh", "text": RECIPE}
    bad: list[tuple[str, dict[str, Any]]] = [
        ("layouts", {"model": "nobody", "options": {"devices": 8, "batch": 8}}),
        ("layouts", {"model": "llama3-8b", "options": {"devices": 8, "batch": 8, "rank": "no"}}),
        ("layouts", {"model": "llama3-8b", "options": {"devices": 8}}),
        ("recipes", {"files": []}),
        ("recipes", {"files": [{"name": "../train.sh", "text": RECIPE}]}),
        ("recipes", {"files": [file], "options": {"model": "/etc/passwd"}}),
    ]  # fmt: skip
    for path, body in bad:
        assert hands.client.post(f"/v1/{path}", json=body).status_code == 422, body


def test_a_recipe_of_no_framework_fails_with_a_sentence(hands: Hands) -> None:
    with pytest.raises(UserError, match="framework"):
        hands.post(
            "/v1/layouts", model="llama3-8b", recipe="nonsense",
            options={"devices": 8, "batch": 64, "cluster": "h100"},
        )  # fmt: skip


def test_a_service_sends_no_tables_of_all_layouts(
    planner: Callable[..., Any], tmp_path: Path
) -> None:
    run = planner("layouts", "llama3-8b", *JOB, "--csv", tmp_path / "all.csv", *THERE)
    assert run.code == 2
    assert "leave --server out" in run.err
