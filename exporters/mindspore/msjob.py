"""A plan's job as a custom resource of ms-operator, in its three forms.

Source: mindspore-ai/ms-operator, `pkg/apis/v1` and `config/samples` (Apache-2.0): the operator sets
MS_ROLE, MS_WORKER_NUM, MS_SERVER_NUM and the scheduler's address in every pod; every role has a
container named `mindspore`; there is one scheduler at most.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import yaml

from exporters.mindspore.launch_scripts import NON_SINK
from exporters.mindspore.symbols import planned_symbols
from exporters.places import Places, places_of
from exporters.settings import Made, Setting, Settings, fault
from ir.plan import Plan

__all__ = ["SETTINGS", "resource"]

FORMS = ("worker", "parameter_server", "scheduler_workers")
_IMAGE = "mindspore:2.10.0"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_SERVERS = 1024
_RESOURCES = {"ascend_910": "huawei.com/Ascend910", "ascend_310": "huawei.com/Ascend310"}

SETTINGS = (
    Setting("form", "|".join(FORMS), "one worker, a parameter server with one worker, or a "
            "scheduler with a worker for each device"),
    Setting("name", "NAME", "of the job, the model's by default"),
    Setting("image", "IMAGE", "of the containers"),
    Setting("script", "FILE", "what every process runs, train.py by default"),
    Setting("arguments", "TEXT", "what the script is given"),
    Setting("folder", "PATH", "of the host, mounted at the same path; holds the script"),
    Setting("servers", "N", "parameter servers, 1 by default"),
    Setting("resource", "NAME|none", "what one device is called, such as nvidia.com/gpu"),
)  # fmt: skip


def resource(plan: Plan, settings: Settings) -> Made:
    """The resource as YAML.

    Raises:
        ExportError: the form cannot run the plan, or a setting cannot be.
    """
    places = places_of(plan)
    form = settings.choice("form", FORMS, "worker" if plan.devices == 1 else "scheduler_workers")
    notes: list[str] = []
    if not settings.has("image"):
        notes.append(f"the image is {_IMAGE}: give --set image=IMAGE for yours")
    replicas: dict[str, object]
    if form == "worker":
        replicas = {"Worker": _worker(plan, places, settings)}
    elif form == "parameter_server":
        replicas = _with_servers(plan, places, settings)
    else:
        replicas = _with_scheduler(plan, places, settings)
    spec: dict[str, object] = {"msReplicaSpecs": replicas}
    if form != "worker":
        spec = {"runPolicy": {"cleanPodPolicy": "None"}, "successPolicy": "AllWorkers", **spec}
    record = {
        "apiVersion": "mindspore.gitee.com/v1",
        "kind": "MSJob",
        "metadata": {"name": _job_name(plan, settings)},
        "spec": spec,
    }
    if form == "scheduler_workers" and plan.rank_order != tuple(range(plan.devices)):
        notes.append("the cluster places the workers; the plan's order of ranks is not kept")
    return Made({"": yaml.safe_dump(record, sort_keys=False)}, tuple(notes))


def _worker(plan: Plan, places: Places, settings: Settings) -> dict[str, object]:
    """One pod with all cards of a server; several processes are started by msrun."""
    if places.servers > 1:
        what = f"one worker is one server, the plan has {places.servers}"
        raise fault(what, "form", "use scheduler_workers, or plan for one server")
    count = plan.devices
    start = f"msrun --worker_num={count} --local_worker_num={count} --join=True"
    runner = "python" if count == 1 else start
    return _replica(1, runner, count, places, settings, plan)


def _with_servers(plan: Plan, places: Places, settings: Settings) -> dict[str, object]:
    if plan.devices != 1:
        what = f"a parameter server with one worker, and a plan for {plan.devices} devices"
        raise fault(what, "form", "plan for one device, or use scheduler_workers")
    servers = settings.number("servers", 1, 1, _MOST_SERVERS)
    return {
        "Scheduler": _replica(1, "python", 0, places, settings, plan),
        "PS": _replica(servers, "python", 0, places, settings, plan),
        "Worker": _replica(1, "python", 1, places, settings, plan),
    }


def _with_scheduler(plan: Plan, places: Places, settings: Settings) -> dict[str, object]:
    if settings.has("servers"):
        raise fault("this form has no parameter servers", "servers", "use form=parameter_server")
    return {
        "Scheduler": _replica(1, "python", 0, places, settings, plan),
        "Worker": _replica(plan.devices, "python", 1, places, settings, plan),
    }


def _replica(
    count: int, runner: str, cards: int, places: Places, settings: Settings, plan: Plan
) -> dict[str, object]:
    """One role: so many pods with so many cards each."""
    folder = settings.text("folder", "")
    container: dict[str, object] = {
        "name": "mindspore",
        "image": settings.text("image", _IMAGE),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", _command(runner, folder, settings)],
    }
    if planned_symbols(plan):
        container["env"] = [{"name": name, "value": value} for name, value in NON_SINK.items()]
    device = settings.text("resource", _resource(places))
    if cards and device != "none":
        container["resources"] = {"limits": {device: cards}}
    pod: dict[str, object] = {"containers": [container]}
    if folder:
        container["volumeMounts"] = [{"mountPath": folder, "name": "job"}]
        pod = {"volumes": [{"name": "job", "hostPath": {"path": folder}}], **pod}
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def _command(runner: str, folder: str, settings: Settings) -> str:
    script = shlex.quote(settings.text("script", "train.py"))
    try:
        words = shlex.split(settings.text("arguments", ""))
    except ValueError as error:
        raise fault("quotes that do not close", "arguments", "close them") from error
    enter = f"cd {shlex.quote(folder)} && " if folder else ""
    return enter + " ".join([runner, script, *map(shlex.quote, words)])


def _resource(places: Places) -> str:
    known: Mapping[str, str] = _RESOURCES
    found = (name for start, name in known.items() if places.chip.startswith(start))
    return next(found, "nvidia.com/gpu")


def _job_name(plan: Plan, settings: Settings) -> str:
    if not settings.has("name"):
        plain = re.sub(r"[^a-z0-9]+", "-", plan.graph.name.lower(), flags=re.ASCII)
        return plain[:63].strip("-") or "job"
    name = settings.text("name", "")
    if not _NAME.fullmatch(name):
        what = f"{name[:80]!r} is no name in Kubernetes"
        raise fault(what, "name", "use at most 63 small letters, digits and dashes")
    return name
