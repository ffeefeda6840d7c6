"""schemathesis over the schema of a real server, with things in it: no answer is a 5xx."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.system.servers import mlp_bytes, running


def test_no_request_of_the_schema_is_answered_with_a_server_error(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--workers", "1") as server:
        names = filled(server.url)
        lines = [f'"path.{name}" = {json.dumps(value)}' for name, value in names.items()]
        (tmp_path / "schemathesis.toml").write_text("[parameters]\n" + "\n".join(lines) + "\n")
        for given in ([], ["--config-file", "schemathesis.toml"]):
            command = [str(Path(sys.executable).parent / "schemathesis"), *given, "run",
                       f"{server.url}/openapi.json", "--checks", "not_a_server_error",
                       "--phases", "coverage,fuzzing,stateful", "--max-examples", "15",
                       "--seed", "1", "--warnings", "off"]  # fmt: skip
            done = subprocess.run(
                command, check=False, cwd=tmp_path, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        statuses = [line.get("status") for line in server.logged() if "status" in line]
        assert len(statuses) > 500
        assert not [s for s in statuses if isinstance(s, int) and s >= 500]


def filled(url: str) -> dict[str, str]:
    """Something of each kind; ids by the names of the parameters."""
    with httpx.Client(base_url=url, timeout=60) as client:

        def ended(job: str) -> dict[str, str]:
            while True:
                found = client.get(f"/v1/jobs/{job}").json()
                if found["state"] in {"done", "failed"}:
                    assert found["state"] == "done", found["message"]
                    return dict(found["result"])
                time.sleep(0.1)

        uploaded = client.post("/v1/models", params={"name": "m.onnx"}, content=mlp_bytes()).json()
        body = {"model": uploaded["id"], "options": {"devices": 8}}
        job = client.post("/v1/searches", json=body).json()["job"]
        plan = ended(job)["plan"]
        simulated = client.post("/v1/simulations", json={"plan": plan}).json()["job"]
        exported = client.post("/v1/exports", json={"plan": plan, "format": "jax"}).json()["job"]
        return {
            "model_id": uploaded["id"], "job_id": job, "plan_id": plan, "other_id": plan,
            "trace_id": ended(simulated)["trace"], "export_id": ended(exported)["export"],
        }  # fmt: skip
