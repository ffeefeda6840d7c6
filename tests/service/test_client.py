"""The Python client, and `--server` on the command line."""

from __future__ import annotations

import io
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import data
from cli.remote import unpacked
from planner.requests.errors import UserError
from service.client import ServiceError
from tests.cli.conftest import planner
from tests.service.conftest import Hands

__all__ = ["planner"]


@contextmanager
def working(hands: Hands) -> Iterator[None]:
    """Hands that do what comes, beside the test."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            hands.work()
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.fast
def test_the_client_goes_from_file_to_export(
    hands: Hands, mlp_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_bytes)
    ours = hands.planner
    with working(hands):
        model = ours.upload_model(tmp_path / "mlp.onnx")
        found = ours.search(model, devices=8, priority=2)
        plan = found["plan"]
        (tmp_path / "plan.json").write_bytes(ours.plan(plan))
        assert ours.upload_plan(tmp_path / "plan.json") == plan
        simulated = ours.simulate(plan, bandwidth=["card=2"])
        assert simulated["step_time_s"] > 0
        assert ours.trace(simulated["trace"]).startswith(b"{")
        assert ours.verify(plan)["passed"]
        assert ours.export(plan, "table").content.startswith(b"what,name,")
        assert [each["id"] for each in ours.plans()] == [plan]
        with pytest.raises(ServiceError, match="unknown format"):
            ours.export(plan, "nonsense")
    with pytest.raises(ServiceError) as fault:
        ours.plan("p_" + "0" * 32)
    assert fault.value.status == 404


def test_a_cancelled_job_is_no_result(hands: Hands) -> None:
    ours = hands.planner
    job = ours.submit("searches", {"model": "llama3-8b", "options": {"devices": 8}})
    ours.cancel(job)
    with pytest.raises(ServiceError, match="cancelled"):
        ours.wait(job)


def test_commands_with_a_server_write_the_same_files(
    hands: Hands, planner: Callable[..., Any], mlp_bytes: bytes, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("service.client.httpx.Client", lambda **_: hands.client)
    monkeypatch.setattr(hands.client, "close", lambda: None)
    model = tmp_path / "a model.onnx"
    model.write_bytes(mlp_bytes)
    there = ["--server", "http://127.0.0.1:1"]
    plan, out = tmp_path / "here" / "plan.json", tmp_path / "there"
    assert planner("search", model, "--devices", 8, "-o", plan.parent).code == 0
    cases: list[tuple[Any, ...]] = [
        ("simulate", plan, "--trace", "FILE"),
        ("simulate", plan, "--plot", "FILE"),
        ("simulate", "llama3-8b", "--layout", "tp=8", "--trace", "FILE"),
        ("simulate", "llama3-8b", "--layout", "tp=8", "--plot", "FILE"),
        ("export", plan, "--format", "jax", "-o", "FILE"),
        ("export", plan, "--format", "mindspore", "-o", "FILE"),
    ]
    with working(hands):
        run = planner("search", model, "--devices", 8, "-o", out, *there)
        assert run.code == 0, run.err
        assert {p.name: p.read_bytes() for p in out.iterdir()} == {
            p.name: p.read_bytes() for p in plan.parent.iterdir()
        }
        for number, case in enumerate(cases):
            kind = "svg" if "--plot" in case else "json"
            files = [tmp_path / f"{number}-{where}.{kind}" for where in ("here", "there")]
            for file, more in zip(files, ([], there), strict=True):
                words = [file if word == "FILE" else word for word in case]
                run = planner(*words, *more)
                assert run.code == 0, run.err
            assert files[0].read_bytes() == files[1].read_bytes(), case
        for case in (("verify", model, plan), ("whatif", model, "--devices", "2,4")):
            here, run = planner(*case), planner(*case, *there)
            assert run.code == 0
            assert run.out == re.sub(r" of [\d.,]+ TFLOP/s \w+", "", here.out)
        run = planner("search", model, "--devices", 2, "--memory", "1MiB", "--json", *there)
        assert (run.code, run.json["status"]) == (1, "infeasible")
        assert run.json["explanation"]["fixes"] or run.json["explanation"]["reasons"]
        ways = ("--why-not", "tp=2,dp=4", "--why-not", "zero3", "--json")
        here, far = (planner("search", model, "--devices", 8, *ways, *w) for w in ([], there))
        assert [each["asked"] for each in far.json["why_not"]] == ["tp=2,dp=4", "zero3"]
        assert far.json == here.json
        run = planner("search", model, "--devices", 8, "--why-not", "tp=nine", *there)
        assert (run.code, "is no degree" in run.err) == (2, True)
        served = ("simulate", "bert-large", "--layout", "dp=8", "--servers", "mode=async")
        assert planner(*served, *there).out == planner(*served).out
        run = planner("search", model, "--devices", 3, *there)
        assert (run.code, "does not run on 3 devices" in run.err) == (2, True)


def test_a_sweep_there_writes_the_same_files(
    hands: Hands, planner: Callable[..., Any], mlp_bytes: bytes, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("service.client.httpx.Client", lambda **_: hands.client)
    monkeypatch.setattr(hands.client, "close", lambda: None)
    monkeypatch.chdir(tmp_path)
    model, prices = Path("m.onnx"), Path("prices.yaml")
    model.write_bytes(mlp_bytes)
    prices.write_text(data.read_text("prices.yaml"))
    Path("ours.yaml").write_text(data.read_text("clusters", "atlas-800t-a2.yaml"))
    found = {}
    with working(hands):
        for where, there in (("here", ()), ("far", ("--server", "http://127.0.0.1:1"))):
            out = tmp_path / where
            run = planner(
                "whatif", model, "--devices", "2,4", "--cluster", "ours.yaml,dgx-h100",
                "--prices", prices, "-o", out, "--csv", out / "s.csv", "--plot", out / "s.svg",
                "--workers", 1, "--json", *there,
            )  # fmt: skip
            assert run.code == 0, run.err
            told = {**run.json, "files": [Path(name).name for name in run.json["files"]]}
            files = {p.relative_to(out): p.read_bytes() for p in out.rglob("*.*")}
            found[where] = (told, files)
        refused = ("whatif", model, "--devices", "2", "--engine", "ray", "--server", "http://x")
        assert "leave one of --engine and --server out" in planner(*refused).err
    assert len(found["here"][1]) == 2 + 2 * 4
    assert found["far"] == found["here"]


def test_figures_that_come_from_a_server_are_told(
    hands: Hands, planner: Callable[..., Any], mlp_bytes: bytes, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("service.client.httpx.Client", lambda **_: hands.client)
    monkeypatch.setattr(hands.client, "close", lambda: None)
    layout, there = ("--layout", "tp=8"), ("--server", "http://127.0.0.1:1")
    here = planner("simulate", "llama3-8b", *layout)
    with working(hands):
        found = planner("simulate", "llama3-8b", *layout, *there)
    assert (here.code, found.code) == (0, 0), found.err
    assert found.out


@pytest.mark.fast
def test_a_server_cannot_write_where_it_likes(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a/b/c", ".ssh/x", "a/../x"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, "x")
        with pytest.raises(UserError, match="sent a file called"):
            unpacked(out.getvalue())


@pytest.mark.fast
def test_a_server_that_is_not_there_is_said(
    planner: Callable[..., Any], tmp_path: Path, mlp_bytes: bytes
) -> None:
    (tmp_path / "m.onnx").write_bytes(mlp_bytes)
    arguments = ["search", tmp_path / "m.onnx", "--devices", 8, "--server"]
    run = planner(*arguments, "http://127.0.0.1:9")
    assert (run.code, "does not answer" in run.err) == (2, True)
    run = planner(*arguments, "nonsense")
    assert (run.code, "is no URL" in run.err) == (2, True)


@pytest.mark.parametrize(
    ("content", "fault"),
    [("", "has no tokens"), ("ann short", "line 1"), ("ann", "line 1"), ("# only", "has no tokens"),
     ("a b c", "line 1"), ("ann 0123456789abcdef\n../x 0123456789abcdef", "line 2")],
)  # fmt: skip
def test_a_token_file_has_names_and_tokens(
    content: str, fault: str, planner: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(content)
    run = planner("serve", "--token-file", tmp_path / "tokens")
    assert run.code == 2
    assert fault in run.err


def test_strangers_are_served_with_tokens_alone(planner: Callable[..., Any]) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        run = planner("serve", "--host", host)
        assert (run.code, "--token-file" in run.err) == (2, True)
