"""Hostile clients of a real server: refused, and nobody else notices."""

from __future__ import annotations

import gzip
import io
import socket
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from onnx import TensorProto, helper

from tests.system.servers import Server, descendants, mlp_bytes, resident_bytes, running

MEBIBYTE = 2**20
GROWTH_BYTES = 300 * MEBIBYTE
"""What a server may have taken on after an assault."""
TOKEN = "a-token-of-the-first-owner"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--workers", "1", "--upload-limit", "16MiB", "--job-memory", "1GiB")
    with running(tmp_path_factory.mktemp("hostile"), *options) as found:
        yield found


def ended(client: httpx.Client, job: str, within_s: float = 120.0) -> dict[str, object]:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        found: dict[str, object] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] in {"done", "failed", "cancelled"}:
            return found
        time.sleep(0.2)
    raise AssertionError("the job does not end")


def zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("archive/models/model.json", "archive/version", "../../escaped"):
            archive.writestr(name, b" " * (64 * MEBIBYTE))
    return out.getvalue()


def wide_model() -> bytes:
    """Small as a file, huge as arrays: folding its constants would take terabytes."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [3], [100_000, 100_000, 100])
    fill = helper.make_node("ConstantOfShape", ["shape"], ["big"])
    add = helper.make_node("Add", ["x", "big"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [100_000, 100_000, 100])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [100_000, 100_000, 100])
    graph = helper.make_graph([fill, add], "wide", [x], [y], [shape])
    content: bytes = helper.make_model(graph).SerializeToString()
    return content


BOMBS = {
    "bomb.onnx.gz": gzip.compress(b"\0" * (1024 * MEBIBYTE), 9),
    "twice.onnx.gz": gzip.compress(gzip.compress(b"\0" * (256 * MEBIBYTE), 9)),
    "bomb.pt2": zip_bomb(),
    "groups.onnx": b"\x3b" * 1_000_000,
    "nested.onnx": b"\x3a\x80\x80\x40" + b"\x3a\xff\xff\x3f" * 100_000,
    "deep.json": b'{"a":' * 200_000,
    "deep.mlir": b"(" * 1_000_000,
}


@contextmanager
def watched(server: Server) -> Iterator[list[int]]:
    """The memory of all processes of a server together, looked at again and again."""
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            total = 0
            for pid in (server.pid, *descendants(server.pid)):
                with suppress(OSError):
                    total += resident_bytes(pid)
            seen.append(total)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def test_a_gzip_bomb_takes_no_gigabyte(server: Server) -> None:
    bomb = gzip.compress(b"\0" * (1024 * MEBIBYTE), 9) * 10
    with httpx.Client(base_url=server.url, timeout=120) as client, watched(server) as seen:
        answer = client.post("/v1/models", params={"name": "ten.onnx.gz"}, content=bomb)
        assert ended(client, answer.json()["job"])["state"] == "failed"
    assert seen
    assert max(seen) - seen[0] < 1024 * MEBIBYTE


def test_bombs_are_refused_with_words_and_memory_stays_bounded(server: Server) -> None:
    before = resident_bytes(server.pid)
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for name, content in BOMBS.items():
            answer = client.post("/v1/models", params={"name": name}, content=content)
            assert answer.status_code == 201, answer.text
            job = ended(client, answer.json()["job"])
            assert job["state"] == "failed", name
            assert job["message"], name
            found = client.get(f"/v1/models/{answer.json()['id']}").json()
            assert found["state"] == "refused"
            assert str(server.data) not in str(job["message"])
    assert resident_bytes(server.pid) - before < GROWTH_BYTES
    assert not list(server.data.glob("**/escaped"))


def test_a_search_that_would_take_terabytes_ends(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        answer = client.post(
            "/v1/models", params={"name": "wide.onnx"}, content=wide_model()
        ).json()
        options = {"devices": 8, "target": "generic"}
        body = {"model": answer["id"], "options": options}
        job = client.post("/v1/searches", json=body).json()["job"]
        assert ended(client, job)["state"] in {"done", "failed"}
        assert client.get("/ready").status_code == 200


def test_uploads_that_are_too_large_are_cut_off(server: Server) -> None:
    before = resident_bytes(server.pid)

    def endless() -> Iterator[bytes]:
        for _ in range(1024):
            yield b"\0" * MEBIBYTE

    for _ in range(5):
        with httpx.Client(base_url=server.url, timeout=60) as client:
            try:
                answer = client.post("/v1/models", params={"name": "a.onnx"}, content=endless())
            except httpx.TransportError:
                continue  # the server hung up while we were still sending
            assert answer.status_code == 413
    assert resident_bytes(server.pid) - before < GROWTH_BYTES
    assert httpx.get(f"{server.url}/health").status_code == 200


def opened(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def test_clients_that_say_nothing_are_left_and_hinder_nobody(server: Server) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(opened(server)) for _ in range(500)]
        for connection in silent[::2]:
            connection.sendall(b"GET /v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
        began_s = time.monotonic()
        assert httpx.get(f"{server.url}/v1/plans").status_code == 200
        assert time.monotonic() - began_s < 5
        assert silent[0].recv(1) == b"", "the server hung up"
        assert silent[1].recv(1) == b""


def test_thousands_of_event_streams_are_refused_gracefully(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "0") as server:  # nobody takes the job: it never ends
        before = resident_bytes(server.pid)
        body = {"model": "llama3-8b", "options": {"devices": 8, "sequence": 2048}}
        job = httpx.post(f"{server.url}/v1/searches", json=body).json()["job"]
        request = (
            f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        ).encode()
        answered: Counter[bytes] = Counter()
        with ExitStack() as stack:
            for _ in range(3000):
                try:
                    connection = stack.enter_context(opened(server))
                    connection.sendall(request)
                    answered[connection.recv(64)[9:12]] += 1
                except OSError:
                    answered[b""] += 1
            assert httpx.get(f"{server.url}/health", timeout=30).status_code == 200
        assert answered == {b"200": 32, b"429": 3000 - 32}
        assert resident_bytes(server.pid) - before < GROWTH_BYTES
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_wrong_tokens_open_nothing(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"ann {TOKEN}\nbob {TOKEN[::-1]}\n")
    with running(
        tmp_path / "data", "--workers", "0", "--token-file", str(tmp_path / "tokens")
    ) as it:
        for token in ("x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é" * 8, "\t" + TOKEN[1:]):
            given = {b"authorization": b"Bearer " + token.encode()}
            assert httpx.get(f"{it.url}/v1/plans", headers=given).status_code == 401
        for owner, count in ((TOKEN, 1), (TOKEN[::-1], 0)):
            headers = {"Authorization": f"Bearer {owner}"}
            with httpx.Client(base_url=it.url, headers=headers) as client:
                if count:
                    client.post("/v1/models", params={"name": "m.onnx"}, content=mlp_bytes())
                assert len(client.get("/v1/models").json()["uploaded"]) == count
        assert TOKEN not in it.log.read_text()
        assert TOKEN.encode() not in b"".join(
            path.read_bytes() for path in (tmp_path / "data").glob("planner.sqlite*")
        )


def test_nobody_listens_for_strangers_without_tokens(tmp_path: Path) -> None:
    server = Server(tmp_path, ("--host", "0.0.0.0"))
    with pytest.raises(AssertionError, match="--token-file"):
        server.start()
    assert server.process is not None
    assert server.process.returncode == 2
