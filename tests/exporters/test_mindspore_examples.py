"""Every tutorial in `examples/mindspore` does what its README says."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app

ROOT = Path(__file__).parents[2]
README = ROOT / "examples" / "mindspore" / "README.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh( fails)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Ran:
    """What the commands of the sections wrote and said."""

    folder: Path
    err: dict[str, str]
    """By section."""

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


def sections() -> Iterator[tuple[str, str]]:
    for match in _SECTION.finditer(README.read_text()):
        yield match[1], match[2]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All commands of the README, in their order, with a folder of their own for `build/ms`."""
    folder = tmp_path_factory.mktemp("ms")
    return Ran(folder, {title: run_section(text, folder) for title, text in sections()})


def run_section(text: str, folder: Path) -> str:
    said = ""
    for block in _BLOCK.finditer(text):
        for line in block[2].splitlines():
            words = shlex.split(line.replace("build/ms", str(folder)))
            words = [re.sub(r"(^|=)(examples|tests)/", rf"\g<1>{ROOT}/\g<2>/", w) for w in words]
            code, err = run_command(words)
            assert code == (2 if block[1] else 0), f"{line}\n{err}"
            said += err
    return said


def run_command(words: list[str]) -> tuple[int, str]:
    if words[0] == "python":
        before = sys.argv
        try:
            sys.argv = words[1:]
            runpy.run_path(words[1], run_name="__main__")
        finally:
            sys.argv = before
        return 0, ""
    result = CliRunner().invoke(app, words[1:], prog_name="planner")
    return result.exit_code, result.stderr


def plan_of(ran: Ran, name: str) -> dict[str, Any]:
    found = json.loads(ran.text(f"{name}/plan.json"))
    assert isinstance(found, dict)
    return found


def module(ran: Ran, name: str, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A generated module, beside a MindSpore that writes down what it is told."""
    told: list[tuple[str, Any]] = []
    package, communication = ModuleType("mindspore"), ModuleType("mindspore.communication")
    package.__dict__.update(
        GRAPH_MODE=0,
        float32="float32",
        set_context=lambda **k: told.append(("context", k)),
        set_device=lambda d: told.append(("device", d)),
        set_ps_context=lambda **k: told.append(("ps", k)),
        reset_auto_parallel_context=lambda: None,
        set_auto_parallel_context=lambda **k: told.append(("old", k)),
        Symbol=lambda **k: k,
        Tensor=lambda shape, dtype: (shape, dtype),
    )
    communication.__dict__["init"] = lambda: told.append(("init", None))
    monkeypatch.setitem(sys.modules, "mindspore", package)
    monkeypatch.setitem(sys.modules, "mindspore.communication", communication)
    return SimpleNamespace(**runpy.run_path(str(ran.folder / name)), told=told)


def test_every_section_runs(ran: Ran) -> None:
    assert len(ran.err) == 9
    for script in ran.folder.rglob("*.sh"):
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script
    for file in ran.folder.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")


def test_dynamic_shapes(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(ran, "dynamic")
    assert plan["request"]["bind"] == [["batch", "64..512../64"]]
    table = runpy.run_path(str(ran.folder / "dynamic" / "apply_mindspore.py"))["STRATEGIES"][""]
    assert ((2, 4), (4, 1)) in table["MatMul"]
    assert ((1, 8), (8, 1)) in table["MatMul"]
    made = module(ran, "dynamic/mindspore_script.py", monkeypatch)
    shapes: list[Any] = []
    made.set_dynamic_inputs(SimpleNamespace(set_inputs=lambda *x: shapes.extend(x)))
    assert shapes == [([{"divisor": 8, "unique": True}, 1, 28, 28], "float32")]
    made.start()
    assert made.told[0][1]["jit_config"] == {"jit_level": "O0"}
    run = {file.name for file in (ran.folder / "dynamic" / "run").iterdir()}
    assert "run_rank_table.sh" not in run
    assert "export GRAPH_OP_RUN=1\nexport HCCL_WHITELIST_DISABLE=1" in ran.text(
        "dynamic/run/run_mpirun.sh"
    )
    assert "kernel by kernel only" in ran.err["Dynamic shapes"]


def test_shard_on_blocks_and_functions(ran: Ran) -> None:
    ops = {op["name"]: op for op in plan_of(ran, "blocks")["operators"]}
    axes = {name for name, _, _ in plan_of(ran, "blocks")["mesh"]}

    def split(name: str) -> list[list[str]]:
        return [list(dim) for dim in ops[name]["inputs"][0]["dims"]]

    assert {*split("/block1/dense1/matmul")[1]} == axes
    assert {*split("/block1/dense2/matmul")[1]} == axes, "as parameter_plan has the weight's rows"
    for name in ("/layer1/matmul", "/block2/dense1/matmul", "/block3/dense2/matmul", "y"):
        assert {*split(name)[0]} == axes
    said = ran.err["shard on blocks and on functions"]
    for code in ("W_SHARD_PARAMETER_UNKNOWN", "W_SHARD_OUT_STRATEGY", "W_SHARD_DERIVED"):
        assert f"warning: {code}" in said
    for code in ("MODE", "NESTED", "VMAP", "FUNCTION_PARAMETERS", "ASSIGNED_TO_CELL", "DIVIDE"):
        assert f"E_SHARD_{code} " in said
    found = plan_of(ran, "dense_relu")["request"]["pins"]
    assert ["/dense_relu/matmul", [[4, 2], [2, 1]]] in found


@pytest.mark.parametrize(("devices", "servers"), [(8, 1), (16, 2)])
def test_resnet_starts_with_a_rank_table(devices: int, servers: int, ran: Ran) -> None:
    folder = f"resnet{devices}/run"
    made = json.loads(ran.text(f"{folder}/rank_table.json"))
    assert made["server_count"] == str(servers)
    cards = [card for server in made["server_list"] for card in server["device"]]
    assert [card["rank_id"] for card in cards] == [str(rank) for rank in range(devices)]
    assert made["server_list"][0]["device"][4]["device_ip"] == "192.1.27.7"
    script = ran.text(f"{folder}/run_rank_table.sh")
    assert f"export RANK_SIZE={devices}" in script
    assert ("within 120 s" in script) == (servers > 1)
    groups = {c["group_size"] for c in plan_of(ran, f"resnet{devices}")["collectives"]}
    assert groups <= {1, devices}


def test_smaller_groups_are_not_started_with_a_rank_table_alone(ran: Ran) -> None:
    files = {file.name for file in (ran.folder / "resnet16auto" / "run").iterdir()}
    assert "run_rank_table.sh" not in files
    assert files >= {"run_msrun.sh", "run_mpirun.sh", "hostfile", "rank_table.json"}
    assert "groups other than the world group" in ran.err["ResNet-50 on 8 and 16 cards"]


def test_fusion(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        n: module(ran, f"fusion/{n}.py", monkeypatch) for n in ("auto", "size", "index", "off")
    }
    configured = {name: made.OLD["comm_fusion"] for name, made in found.items()}
    assert configured["auto"]["allreduce"] == {"mode": "auto", "config": None}
    assert configured["size"] == {
        "openstate": True,
        "allreduce": {"mode": "size", "config": 32},
        "allgather": {"mode": "size", "config": 16},
        "reducescatter": {"mode": "auto", "config": None},
    }
    assert configured["index"]["allreduce"] == {"mode": "index", "config": [20, 35]}
    assert configured["off"] == {"openstate": False}
    said = ran.err["Fusion of communication"]
    fused = re.findall(r"allreduce: (\d+) collectives of parameters become (\d+), of", said)
    assert len({alone for alone, _ in fused}) == 1
    assert [count for _, count in fused] == ["1", "1", "3"], "64 MB, 32 MB, by two indices"


def test_hybrid_parallel_net(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(ran, "hybrid/hybrid.py", monkeypatch)
    assert made.OLD["parallel_mode"] == "hybrid_parallel"
    assert made.SLICES == {"weight": (512, 64)}
    assert made.COLLECTIVES == (("y", -1, "AllReduce", ((0, 1),), 32 * 4),)
    weight = SimpleNamespace(name="weight", shape=[512, 64])
    network = SimpleNamespace(get_parameters=lambda: [weight])
    assert made.mark_slices(network) == []
    assert weight.layerwise_parallel is True
    weight.shape = [512, 128]
    assert "(512, 64) in the plan" in made.mark_slices(network)[0]
    semi = module(ran, "hybrid/semi_auto.py", monkeypatch)
    assert semi.OLD["parallel_mode"] == "semi_auto_parallel"
    table = runpy.run_path(str(ran.folder / "hybrid" / "apply_mindspore.py"))["STRATEGIES"]
    assert table[""] == {"MatMul": [((1, 1), (1, 2))], "ReduceSum": [((1, 2),)]}


def test_the_loss_in_small_operators(ran: Ran) -> None:
    table = runpy.run_path(str(ran.folder / "softmax" / "apply_mindspore.py"))["STRATEGIES"]
    kinds = {kind for cell in table.values() for kind in cell}
    assert kinds >= {"ReduceMax", "Sub", "Exp", "ReduceSum", "RealDiv", "Log", "Mul", "ReduceMean"}


def test_slices_of_large_images(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(ran, "images/mindspore_script.py", monkeypatch)
    assert made.OLD["dataset_strategy"] == ((1, 1, 1, 4), (1,))
    image = next(t for t in plan_of(ran, "images")["tensors"] if t["role"] == "input")
    assert [len(dim) > 0 for dim in image["layout"]["dims"]] == [False, False, False, True]


def test_the_parameter_server(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ran.text("table/servers/run_parameter_server.sh")
    for line in ("MS_SERVER_NUM=2", "MS_WORKER_NUM=8", "MS_SCHED_HOST=127.0.0.1"):
        assert f"export {line}\n" in script
    made = module(ran, "table/servers/parameter_server.py", monkeypatch)
    made.start()
    assert [name for name, _ in made.told] == ["context", "ps", "init"]
    given: list[str] = []
    held = SimpleNamespace(
        name="embedding_table", set_param_ps=lambda init_in_server: given.append("table")
    )
    assert made.prepare(SimpleNamespace(get_parameters=lambda: [held])) == []
    assert given == ["table"]
    assert made.prepare(SimpleNamespace(get_parameters=list)) != []


def test_the_three_forms_of_ms_operator(ran: Ran) -> None:
    found = {
        name: yaml.safe_load(ran.text(name))
        for name in ("one/worker.yaml", "one/parameter_server.yaml", "blocks/workers.yaml")
    }
    roles = {
        name: {role: each["replicas"] for role, each in made["spec"]["msReplicaSpecs"].items()}
        for name, made in found.items()
    }
    assert roles == {
        "one/worker.yaml": {"Worker": 1},
        "one/parameter_server.yaml": {"Scheduler": 1, "PS": 2, "Worker": 1},
        "blocks/workers.yaml": {"Scheduler": 1, "Worker": 8},
    }
    for made in found.values():
        assert (made["apiVersion"], made["kind"]) == ("mindspore.gitee.com/v1", "MSJob")
        for role in made["spec"]["msReplicaSpecs"].values():
            (container,) = role["template"]["spec"]["containers"]
            assert (container["name"], container["image"]) == ("mindspore", "mindspore-gpu:1.7.0")
