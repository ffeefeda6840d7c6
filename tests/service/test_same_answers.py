"""The command line and the service are one planner: same options, same bytes, same figures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from onnx import parser

import data
from cli.search import search
from importers.sizes import published
from planner.requests.errors import UserError
from planner.requests.options.searches import SearchOptions
from tests.cli.conftest import MLP, planner
from tests.service.conftest import Hands

__all__ = ["planner"]

ONLY_THERE = {"model", "server", "why_not", "output", "as_json", "help_all"}
"""Parameters of the command that no request has."""
CALLS = "schema_version: 1"


def test_the_options_of_a_request_are_those_of_the_command() -> None:
    parameters = inspect.signature(search).parameters
    options = {each.name: each.default for each in fields(SearchOptions)}
    assert set(parameters) - ONLY_THERE == set(options)
    for name, default in options.items():
        assert (parameters[name].default or ()) == (default or ()), name


def flags(options: dict[str, Any]) -> list[str]:
    """Options as the command line has them."""
    out: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            out.append(flag if value else f"--no-{name.replace('_', '-')}")
        else:
            for each in value if isinstance(value, list) else [value]:
                out += [flag, str(each)]
    return out


CASES: dict[str, dict[str, Any]] = {
    "plain": {"devices": 8},
    "batch": {"devices": 8, "batch": 128, "optimizer": "sgd", "phase": "train"},
    "pinned": {"devices": 4, "pin": ["MatMul *=((1,2),(2,2))"], "solver": "propagation"},
    "free": {"devices": 8, "target": "jax", "cluster": "dgx-h100", "memory": "1GiB"},
    "bound": {"devices": 8, "bind": ["batch=64"]},
    "ranges": {"devices": 8, "bind": ["batch=16..64/16"], "target": "torch"},
    "symbols": {"devices": 8, "bind": ["batch=Symbol(divisor=8, max=32)"], "optimizer": "sgd"},
    "of MindSpore": {"devices": 8, "cost": "mindspore", "all_to_all": False, "phase": "infer"},
}


@pytest.mark.parametrize("name", CASES)
def test_plan_json_has_the_same_bytes(
    name: str, hands: Hands, planner: Callable[..., Any], tmp_path: Path
) -> None:
    options = CASES[name]
    rows = "batch" if "bind" in options else "64"
    content = parser.parse_model(MLP.replace("ROWS", rows)).SerializeToString()
    (tmp_path / "mlp.onnx").write_bytes(content)
    run = planner("search", tmp_path / "mlp.onnx", *flags(options), "-o", tmp_path / "plan")
    assert run.code == 0, run.err
    model = hands.upload("models", "mlp.onnx", content)
    job = hands.post("/v1/searches", model=model, options=options)
    assert job["state"] == "done", job["message"]
    there = hands.client.get(f"/v1/plans/{job['result']['plan']}").content
    assert there == (tmp_path / "plan" / "plan.json").read_bytes()


def test_machines_that_are_files_are_uploaded(
    hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    file = tmp_path / "ours.yaml"
    file.write_text(data.read_text("clusters", "atlas-800t-a2.yaml"))
    assert yaml.safe_load(file.read_text())["schema_version"]
    arguments = ["--devices", "8", "--cluster", file, "-o", tmp_path / "plan"]
    assert planner("search", tmp_path / "mlp.onnx", *arguments).code == 0
    cluster = hands.upload("clusters", "ours.yaml", file.read_bytes())
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    job = hands.post("/v1/searches", model=model, options={"devices": 8, "cluster": cluster})
    there = hands.client.get(f"/v1/plans/{job['result']['plan']}").content
    assert there == (tmp_path / "plan" / "plan.json").read_bytes()


@pytest.mark.fast
def test_simulations_and_verifications_say_the_same(
    hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    planner("search", tmp_path / "mlp.onnx", "--devices", 4, "-o", tmp_path)
    plan = hands.upload("plans", "plan.json", (tmp_path / "plan.json").read_bytes())
    model = hands.upload("models", "mlp.onnx", mlp_bytes)

    trace = tmp_path / "trace.json"
    run = planner(
        "simulate", tmp_path / "plan.json", "--overlap", "none", "--trace", trace, "--json"
    )
    job = hands.post("/v1/simulations", plan=plan, options={"overlap": "none"})
    there = {k: v for k, v in job["result"].items() if k != "trace"}
    assert {**there, "files": run.json["files"]} == run.json
    timeline = hands.client.get(f"/v1/traces/{job['result']['trace']}").content
    assert timeline == trace.read_bytes()

    run = planner("verify", tmp_path / "mlp.onnx", tmp_path / "plan.json", "--json")
    job = hands.post("/v1/verifications", plan=plan, model=model)
    assert {k: v for k, v in job["result"].items() if k != "passed"} == run.json
    assert job["result"]["passed"]


LAYOUT = "tp=2,dp=4,batch=16,seq=512"


@pytest.mark.parametrize("model", ["llama3-8b", "mine/config.json"])
def test_simulations_of_layouts_say_the_same(
    model: str, hands: Hands, planner: Callable[..., Any], tmp_path: Path
) -> None:
    file, name, there = tmp_path / model, model, model
    if model.endswith(".json"):
        file.parent.mkdir()
        file.write_text(json.dumps(dict(published("bert-large").config)))
        name, there = "mine", hands.upload("models", "config.json", file.read_bytes())
    trace = tmp_path / "trace.json"
    where = file if file.exists() else model
    arguments = ["--layout", LAYOUT, "--cluster", "dgx-h100", "--jitter", "normal:0.1"]
    run = planner("simulate", *arguments, "--trace", trace, where, "--json")
    assert run.code == 0, run.err
    layout = {"layout": LAYOUT, "cluster": "dgx-h100", "name": name}
    job = hands.post(
        "/v1/simulations", model=there, layout=layout, options={"jitter": "normal:0.1"}
    )
    assert job["state"] == "done", job["message"]
    found = {k: v for k, v in job["result"].items() if k != "trace"}
    assert {**found, "files": run.json["files"]} == run.json
    timeline = hands.client.get(f"/v1/traces/{job['result']['trace']}").content
    assert timeline == trace.read_bytes()


@pytest.mark.fast
def test_parameter_servers_say_the_same(hands: Hands, planner: Callable[..., Any]) -> None:
    texts = {"layout": "dp=8,micro=4,batch=32,seq=512", "servers": "count=2,lose=worker@60"}
    options = [text for key, value in texts.items() for text in (f"--{key}", value)]
    run = planner("simulate", *options, "bert-large", "--json")
    assert run.code == 0, run.err
    job = hands.post("/v1/simulations", model="bert-large", layout=texts)
    assert job["result"] == run.json


def test_parameter_servers_of_a_plan_say_the_same(
    hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    made = ("import-strategy", "dp=8", tmp_path / "mlp.onnx", "--devices", 8)
    assert planner(*made, "-o", tmp_path / "dp.json").code == 0
    asked = {"servers": "count=2,mode=async,lose=worker@60", "cluster": "dgx-a100"}
    options = [text for key, value in asked.items() for text in (f"--{key}", value)]
    run = planner("simulate", tmp_path / "dp.json", *options, "--json")
    assert run.code == 0, run.err
    assert run.json["workers"] == 8
    plan = hands.upload("plans", "plan.json", (tmp_path / "dp.json").read_bytes())
    assert hands.post("/v1/simulations", plan=plan, options=asked)["result"] == run.json
    with pytest.raises(UserError, match="--jitter is not for parameter servers"):
        hands.post("/v1/simulations", plan=plan, options=asked | {"jitter": "normal:0.1"})


def test_a_simulation_is_of_a_plan_or_of_a_layout(hands: Hands) -> None:
    for body in ({}, {"model": "bert-large"}, {"layout": {"layout": "dp=8"}}):
        answer = hands.client.post("/v1/simulations", json=body)
        assert answer.status_code == 422
        assert "name a plan, or a model with a layout" in answer.json()["message"]


@pytest.mark.fast(every=True)
@pytest.mark.parametrize("form", ["mindspore", "jax", "table", "launch"])
def test_exports_have_the_same_bytes(
    form: str, hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    planner("search", tmp_path / "mlp.onnx", "--devices", 8, "-o", tmp_path)
    plan = hands.upload("plans", "plan.json", (tmp_path / "plan.json").read_bytes())
    out = tmp_path / ("run" if form == "launch" else "out.json")
    run = planner("export", tmp_path / "plan.json", "--format", form, "-o", out)
    assert run.code == 0, run.err
    suffix = ".json" if form in {"mindspore", "jax"} else None
    job = hands.post("/v1/exports", plan=plan, format=form, suffix=suffix)
    assert job["state"] == "done", job["message"]
    content = hands.client.get(f"/v1/exports/{job['result']['export']}").content
    if form != "launch":
        assert content == out.read_bytes()
        return
    (tmp_path / "there.zip").write_bytes(content)
    import zipfile  # noqa: PLC0415

    with zipfile.ZipFile(tmp_path / "there.zip") as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == {
            path.name: path.read_bytes() for path in out.iterdir()
        }


def test_what_does_not_fit_is_said_with_the_same_figures(
    hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    arguments = ["--devices", "2", "--memory", "1MiB", "--json"]
    run = planner("search", tmp_path / "mlp.onnx", *arguments)
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    job = hands.post("/v1/searches", model=model, options={"devices": 2, "memory": "1MiB"})
    assert job["result"].pop("plan") is None
    assert job["result"] == json.loads(run.out)


@pytest.mark.fast
def test_sweeps_have_the_same_points(
    hands: Hands, planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    arguments = ["--devices", "2,4", "--vary", "bandwidth=1,2", "--workers", "1", "--json"]
    run = planner("whatif", tmp_path / "mlp.onnx", *arguments)
    assert run.code == 0, run.err
    model = hands.upload("models", "mlp.onnx", mlp_bytes)
    swept = {"devices": "2,4", "vary": ["bandwidth=1,2"]}
    job = hands.post("/v1/sweeps", model=model, sweep=swept)
    assert job["state"] == "done", job["message"]
    assert job["result"] == json.loads(run.out)
