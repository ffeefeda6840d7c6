"""Launch scripts, custom resources and parameter servers: rules, warnings, hostile settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from onnx import parser

from costmodel.memory import Optimizer
from exporters.errors import ExportError
from exporters.formats import FORMATS
from exporters.mindspore import launch, msjob, parameter_server
from exporters.places import places_of
from exporters.settings import Made, Setting, Settings, table_of
from importers.onnx import import_onnx
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.cli.conftest import MLP
from topology.catalogue import named_cluster

Planned = Callable[..., Plan]
WHOLE = (("MatMul_0", ((2, 1), (1, 1))), ("Relu_1", ((2, 1),)), ("MatMul_2", ((2, 1), (1, 1))))


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plans the perceptron of 64 rows."""
    path = tmp_path_factory.mktemp("launch") / "mlp.onnx"
    text = MLP.replace("ROWS", "64").replace("bfloat16", "float16")
    path.write_bytes(parser.parse_model(text).SerializeToString())

    def plan(devices: int, cluster: str = "atlas-800-9000", **request: Any) -> Plan:
        asked = SearchRequest(optimizer=Optimizer.SGD, **request)
        return search(import_onnx(path), named_cluster(cluster, devices), asked)

    return plan


@pytest.fixture(scope="module")
def data_parallel(planned: Planned) -> Plan:
    """On two servers, with the world group alone."""
    product, rows = ((16, 1), (1, 1)), ((16, 1),)
    pins = (
        ("MatMul_0", product), ("Relu_1", rows), ("MatMul_2", product), ("loss/y", rows),
    )  # fmt: skip
    return planned(16, pins=pins)


@pytest.fixture(scope="module")
def mixed(planned: Planned) -> Plan:
    """On two servers, with smaller groups."""
    pins = (("MatMul_0", ((4, 1), (1, 4))), ("MatMul_2", ((4, 4), (4, 1))))
    return planned(16, pins=pins)


def made(plan: Plan, form: str = "launch", /, **given: str) -> Made:
    known = FORMATS[form]
    assert known.make is not None
    return known.make(plan, Settings(given, known.settings))


def refused(plan: Plan, form: str = "launch", /, **given: str) -> str:
    with pytest.raises(ExportError) as error:
        made(plan, form, **given)
    return str(error.value)


def checked(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if name.endswith(".sh"):
            done = subprocess.run(
                ["bash", "-n"], input=text, text=True, capture_output=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), name


def test_the_world_group_alone_starts_from_a_rank_table(data_parallel: Plan) -> None:
    found = made(data_parallel)
    checked(found.files)
    assert set(found.files) == {
        "rank_table.json", "run_rank_table.sh", "run_msrun.sh", "run_mpirun.sh", "hostfile",
    }  # fmt: skip
    assert any("within 120 s" in note for note in found.notes)


def test_a_rank_table_is_refused_where_there_are_smaller_groups(mixed: Plan) -> None:
    assert "groups other than the world group" in refused(mixed, start="rank_table")
    assert set(made(mixed, start="msrun").files) == {"run_msrun.sh"}


def test_a_run_that_does_not_sink_needs_another_start(data_parallel: Plan) -> None:
    found = made(data_parallel, sink="false")
    assert "run_rank_table.sh" not in found.files
    for name in ("run_msrun.sh", "run_mpirun.sh"):
        assert "export GRAPH_OP_RUN=1\nexport HCCL_WHITELIST_DISABLE=1\n" in found.files[name]
    assert "-x GRAPH_OP_RUN -x HCCL_WHITELIST_DISABLE" in found.files["run_mpirun.sh"]
    assert "GRAPH_OP_RUN" not in made(data_parallel).files["run_mpirun.sh"]
    assert "does not sink" in refused(data_parallel, start="rank_table", sink="no")


@pytest.mark.parametrize("server", [0, 1])
def test_every_process_gets_its_rank_and_card(
    server: int, data_parallel: Plan, tmp_path: Path
) -> None:
    order = (*reversed(range(8)), *reversed(range(8, 16)))
    files = made(replace(data_parallel, rank_order=order), arguments="'two words' x").files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(
        "import os, sys; print(os.environ['RANK_ID'], os.environ['DEVICE_ID'], sys.argv[1:])"
    )
    script = tmp_path / "run_rank_table.sh"
    subprocess.run(["bash", script, str(server)], cwd=tmp_path, check=True)
    table = json.loads(files["rank_table.json"])["server_list"][server]["device"]
    assert len(table) == 8
    for card in table:
        log = (tmp_path / f"device{card['rank_id']}" / "train.log").read_text()
        assert log == f"{card['rank_id']} {card['device_id']} ['two words', 'x']\n"


def test_msrun_and_mpirun_are_called_as_they_want(data_parallel: Plan, tmp_path: Path) -> None:
    for name, text in made(data_parallel, script="a b.py", port="9000").files.items():
        (tmp_path / name).write_text(text)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("msrun", "mpirun"):
        (tools / tool).write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
        (tools / tool).chmod(0o755)

    def run(name: str, *arguments: str) -> list[str]:
        command = ["bash", str(tmp_path / name), *arguments]
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "FIRST_SERVER": "first"}
        done = subprocess.run(command, text=True, capture_output=True, check=True, env=environment)
        return done.stdout.splitlines()

    words = run("run_msrun.sh", "1")
    assert {"--worker_num=16", "--local_worker_num=8", "--master_addr=first"} <= set(words)
    assert {"--master_port=9000", "--node_rank=1", "--cluster_time_out=120"} <= set(words)
    assert words[-1] == f"{tmp_path}/a b.py"
    words = run("run_mpirun.sh")
    assert words[words.index("-n") + 1] == "16"
    assert words[words.index("--hostfile") + 1] == f"{tmp_path}/hostfile"


@pytest.mark.parametrize("server", ["2", "x", "-1", "1; echo"])
def test_a_server_that_is_not_there_starts_nothing(
    server: str, data_parallel: Plan, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text(made(data_parallel).files["run_msrun.sh"])
    done = subprocess.run(["bash", script, server], text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert "there are 0 to 1" in done.stderr


def test_ranks_that_change_servers_keep_only_the_rank_table(data_parallel: Plan) -> None:
    order = (8, *range(1, 8), 0, *range(9, 16))
    text = refused(replace(data_parallel, rank_order=order), start="msrun")
    assert "do not go through the servers" in text


def test_cards_in_another_order_are_named(data_parallel: Plan) -> None:
    order = (*reversed(range(8)), *reversed(range(8, 16)))
    text = made(replace(data_parallel, rank_order=order)).files["run_msrun.sh"]
    assert "export ASCEND_RT_VISIBLE_DEVICES=7,6,5,4,3,2,1,0\n" in text


def test_communicators_that_exceed_memory_are_told(data_parallel: Plan) -> None:
    note = "HcclCommInitRootInfo fails with error number 2"
    assert not [each for each in made(data_parallel).notes if note in each]
    memory = places_of(data_parallel).memory_bytes // 2**30
    (told,) = [n for n in made(data_parallel, max_device_memory=str(memory)).notes if note in n]
    assert f"set max_device_memory to at most {memory - 1}GB" in told
    crowded = replace(data_parallel.estimate, communicators=100, communicator_bytes=40.0 * 2**30)
    assert [n for n in made(replace(data_parallel, estimate=crowded)).notes if note in n]


def test_other_machines_have_no_rank_table(planned: Planned) -> None:
    plan = planned(8, "dgx-a100")
    found = made(plan)
    assert set(found.files) == {"run_msrun.sh", "run_mpirun.sh"}
    assert "no rank table" in refused(plan, start="rank_table")


@pytest.mark.parametrize(
    ("form", "given", "words"),
    [
        ("launch", {"port": "80"}, "1024 to 65535"),
        ("launch", {"start": "ssh"}, "rank_table, msrun"),
        ("launch", {"sink": "maybe"}, "neither true nor false"),
        ("launch", {"hosts": "/no/such/file"}, "cannot read"),
        ("launch", {"script": "a\nb"}, "unprintable"),
        ("launch", {"scrip": "a"}, "did you mean 'script'?"),
        ("msjob", {"form": "worker"}, "one worker is one server"),
        ("msjob", {"form": "parameter_server"}, "a plan for 16 devices"),
        ("msjob", {"name": "No_Name"}, "no name in Kubernetes"),
        ("msjob", {"servers": "2"}, "no parameter servers"),
        ("msjob", {"arguments": "'"}, "quotes that do not close"),
        ("parameter-server", {"host": "a b"}, "no address"),
        ("parameter-server", {"parameters": "nothing*"}, "give all, or a pattern for up, down"),
        ("parameter-server", {"servers": "0"}, "1 to 1024"),
        ("mindspore-script", {"comm_fusion": "allgather=index:3"}, "no mode index"),
    ],
)
def test_settings_that_cannot_be(
    form: str, given: dict[str, str], words: str, data_parallel: Plan
) -> None:
    text = refused(data_parallel, form, **given)
    assert words in text
    assert "at:" in text
    assert "fix:" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.1\n", "1 servers, the plan has 2"),
        ("10.0.0.1\n10.0.0.1\n", "stands twice"),
        ("10.0.0.1\n$(reboot)\n", "is no address"),
        ("10.0.0.1 1.1.1.1\n10.0.0.2 1.1.1.2\n", "none for device 1"),
    ],
)
def test_host_files_that_cannot_be(
    text: str, words: str, data_parallel: Plan, tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text(text)
    assert words in refused(data_parallel, hosts=str(tmp_path / "hosts"))


HOSTILE = "x'; touch gone; '$(touch gone)`touch gone`\".py"


def test_words_of_the_user_stay_words(data_parallel: Plan, tmp_path: Path) -> None:
    given = {"script": HOSTILE, "arguments": "$(touch gone) ; touch gone"}
    files = dict(made(data_parallel, start="rank_table", **given).files)
    files |= made(data_parallel, "parameter-server", **given).files
    checked(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for command in (["run_rank_table.sh", "0"], ["run_parameter_server.sh", "all"]):
        subprocess.run(["bash", tmp_path / command[0], *command[1:]], cwd=tmp_path, check=False)
    assert not list(tmp_path.rglob("gone"))
    record = yaml.safe_load(made(data_parallel, "msjob", **given).files[""])
    command = record["spec"]["msReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    subprocess.run(command["command"], cwd=tmp_path, check=False, capture_output=True)
    assert not list(tmp_path.rglob("gone"))


def test_every_role_of_the_parameter_server_has_its_environment(
    data_parallel: Plan, tmp_path: Path
) -> None:
    for name, text in made(data_parallel, "parameter-server", servers="2").files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(
        "import os; print(*[os.environ.get(n, '-') for n in ('MS_ROLE', 'MS_SERVER_NUM', "
        "'MS_WORKER_NUM', 'MS_SCHED_PORT', 'DEVICE_ID')])"
    )
    subprocess.run(["bash", tmp_path / "run_parameter_server.sh"], cwd=tmp_path, check=True)
    said = {p.parent.name: p.read_text().strip() for p in tmp_path.glob("*/train.log")}
    assert said["scheduler"] == "MS_SCHED 2 16 8118 -"
    assert said["server1"] == "MS_PSERVER 2 16 8118 -"
    assert said["worker9"] == "MS_WORKER 2 16 8118 1"
    assert len(said) == 1 + 2 + 16


def test_a_server_holds_whole_parameters_that_fit(mixed: Plan, data_parallel: Plan) -> None:
    assert "a server holds it whole" in refused(mixed, "parameter-server")
    large = tuple(replace(t, dims=(2**20, 2**11)) for t in data_parallel.tensors)
    assert "2147483647 at most" in refused(
        replace(data_parallel, tensors=large), "parameter-server"
    )


def test_one_worker_on_one_server_starts_its_cards_with_msrun(planned: Planned) -> None:
    record = yaml.safe_load(made(planned(8), "msjob", form="worker", folder="/data").files[""])
    pod = record["spec"]["msReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][2] == (
        "cd /data && msrun --worker_num=8 --local_worker_num=8 --join=True train.py"
    )
    assert container["resources"] == {"limits": {"huawei.com/Ascend910": 8}}
    assert pod["volumes"] == [{"name": "job", "hostPath": {"path": "/data"}}]


def test_the_table_of_settings_has_all(data_parallel: Plan) -> None:
    for module in (launch, msjob, parameter_server):
        assert len({each.name for each in module.SETTINGS}) == len(module.SETTINGS)
        assert table_of(module.SETTINGS).count("\n") == len(module.SETTINGS) - 1
    assert table_of([Setting("a", "b", "c")]) == "  a=b  c"
    assert made(data_parallel) == made(data_parallel), "the same bytes every time"


TABLE = """{"version": "1.0", "server_count": "1", "server_list": [{"server_id": "10.1.1.1",
 "device": [CARDS], "host_nic_ip": "reserve"}], "status": "completed"}"""


def table_file(folder: Path, ids: tuple[int, ...]) -> str:
    cards = ",".join(
        f'{{"device_id": "{card}", "device_ip": "192.{card}.1.{card + 1}", "rank_id": "{rank}"}}'
        for rank, card in enumerate(ids)
    )
    (folder / "table.json").write_text(TABLE.replace("CARDS", cards))
    return str(folder / "table.json")


def test_a_rank_table_at_hand_names_the_cards(planned: Planned, tmp_path: Path) -> None:
    files = made(planned(4), rank_table=table_file(tmp_path, (5, 4, 7, 6))).files
    checked(files)
    assert "export ASCEND_RT_VISIBLE_DEVICES=5,4,7,6\n" in files["run_msrun.sh"]
    assert json.loads(files["rank_table.json"])["server_list"][0]["server_id"] == "10.1.1.1"
    script = made(planned(2, pins=WHOLE), rank_table=table_file(tmp_path, (6, 7))).files
    assert "ranks=(0 1)\ncards=(6 7)\n" in script["run_rank_table.sh"]


def test_a_rank_table_of_other_cards_is_refused(planned: Planned, tmp_path: Path) -> None:
    assert "4 cards in the table, 2 in the plan" in refused(
        planned(2), rank_table=table_file(tmp_path, (4, 5, 6, 7))
    )
    assert "E_" in refused(planned(2), rank_table=table_file(tmp_path, (4, 4)))
    table = table_file(tmp_path, (4, 5))
    assert "give one of them" in refused(planned(2), rank_table=table, hosts=table)
