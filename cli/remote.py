"""`--server URL`: a service does the work, and the command prints what it would have found."""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.errors import UserError
from cli.files import text_of
from cli.machine_files import is_file_name

if TYPE_CHECKING:
    from exporters.formats import Format
    from ir.plan import Plan
    from planner.explain import Infeasibility
    from planner.request import InfeasibleError
    from planner.requests.options.searches import SearchOptions
    from planner.requests.options.simulations import LayoutOptions
    from planner.requests.options.sweeps import SweepOptions
    from planner.requests.sources import Document
    from report.explanation import WhyNot
    from service.client import Planner

_FILES = ("hosts", "rank_table")
"""Settings of exports that are names of files: their texts are sent."""
_FILE_NAME = re.compile(r"([A-Za-z0-9_-][\w.-]*/)?[A-Za-z0-9_-][\w.-]*", re.ASCII)
_SUFFIXES = (".json", ".py", ".yaml", ".yml")


@contextmanager
def connected(url: str) -> Iterator[Planner]:
    """The service of a URL; what it refuses is the user's to mend."""
    from service.client import Planner, ServiceError  # noqa: PLC0415  brings in httpx

    if not re.match(r"https?://[^/]", url):
        raise UserError(f"{url!r} is no URL", f"--server {url}", "write such as http://HOST:8400")
    try:
        with Planner(url, os.environ.get("PLANNER_TOKEN")) as planner:
            try:
                yield planner
            except KeyboardInterrupt:
                _say_that_it_goes_on(planner.watched, url)
                raise
    except ServiceError as error:
        lines = str(error)
        raise UserError(lines if "\n" in lines else f"{lines}\n  at:  --server {url}") from error


def _say_that_it_goes_on(job: str, url: str) -> None:
    """Of a job that is looked at no longer: how to look again, to have its files, or to end it."""
    if job:
        there = f"{job} --server {url}"
        print(
            f"\nthe job {job} goes on at the service\n"
            f"  watch:  planner jobs watch {there}\n"
            f"  fetch:  planner jobs fetch {there} -o DIR\n"
            f"  cancel: planner jobs cancel {there}",
            file=sys.stderr,
        )


def sent(planner: Planner, kind: str, path: Path) -> str:
    """Upload a file under its name; its id.

    Raises:
        UserError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot read {path}: {reason}", str(path), "name a file") from error
    return planner.upload(kind, path.name, content)


def sent_model(planner: Planner, model: Path) -> str:
    """Upload a model, if it is no published one; what the service calls it."""
    return sent(planner, "models", model) if model.exists() else str(model)


def sent_cluster(planner: Planner, cluster: str) -> str:
    """Upload a cluster, if it is no bundled one; what the service calls it."""
    return sent(planner, "clusters", Path(cluster)) if is_file_name(cluster) else cluster


def _sent_plan(planner: Planner, plan: Document | None) -> Document | None:
    """Upload an older plan; its id without a text stands for it."""
    from planner.requests.sources import Document  # noqa: PLC0415

    if plan is None:
        return None
    return Document(planner.upload("plans", "plan.json", plan.text.encode()), "")


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a service found: a plan, or why nothing fits."""

    plan: Plan | None
    error: InfeasibleError | None
    why: Infeasibility | None
    """With an error, reasons and changes that were tried."""
    others: list[WhyNot]
    """Other ways that were asked for."""


def remote_plan(
    url: str,
    model: Path,
    asked: SearchOptions,
    ways: Sequence[str],
    report: Callable[[str], None],
) -> RemoteAnswer:
    """The plan that a service finds, and what other ways would cost more.

    Raises:
        UserError: the service refuses, or does not answer.
    """
    from ir.plan_file import plan_from_json  # noqa: PLC0415  brings in pydantic

    with connected(url) as planner:
        report(f"sending {model.name}")
        there = replace(
            asked,
            cluster=sent_cluster(planner, asked.cluster),
            keep_close_to=_sent_plan(planner, asked.keep_close_to),
        )
        name = sent_model(planner, model)
        result = planner.search(name, told(report), why_not=ways, **plain_options(asdict(there)))
        if result["plan"] is None:
            return RemoteAnswer(None, infeasible(result), _why(result.get("explanation")), [])
        plan = plan_from_json(planner.plan(result["plan"]).decode())
    return RemoteAnswer(plan, None, None, _others(result.get("why_not", [])))


def _others(records: Sequence[Mapping[str, Any]]) -> list[WhyNot]:
    from report.explanation import WhyNot, rebuilt  # noqa: PLC0415

    return [rebuilt(WhyNot, each) for each in records]


def _why(record: Mapping[str, Any] | None) -> Infeasibility | None:
    from planner.explain import Infeasibility  # noqa: PLC0415  brings in the planner
    from report.explanation import rebuilt  # noqa: PLC0415

    found: Infeasibility | None = None if record is None else rebuilt(Infeasibility, record)
    return found


def remote_simulation(
    url: str,
    subject: str,
    options: Mapping[str, Any],
    layout: LayoutOptions | None,
    *,
    trace: bool,
    plot: str | None,
) -> tuple[dict[str, Any], bytes, bytes]:
    """What a service says of a simulation, with its timeline and its picture if they are wanted.

    Raises:
        UserError: the service refuses, or does not answer.
    """
    with connected(url) as planner:
        there = plain_options(options)
        if layout is not None:
            model, named = _sent_layout(planner, subject, layout)
            there["cluster"] = None
            result = planner.simulate_layout(model, named, plot=plot, **there)
        else:
            if there["cluster"] is not None:
                there["cluster"] = sent_cluster(planner, there["cluster"])
            result = planner.simulate(sent(planner, "plans", Path(subject)), plot=plot, **there)
        timeline = planner.trace(result["trace"]) if trace else b""
        return result, timeline, planner.file(result.pop("plot")) if plot else b""


def _sent_layout(planner: Planner, model: str, layout: LayoutOptions) -> tuple[str, dict[str, Any]]:
    """Upload the configuration, if it is no published model's; what the service calls it, and the
    layout with the model's name here.
    """
    from planner.requests.training_models import model_name  # noqa: PLC0415

    named = {**plain_options(asdict(layout)), "name": model_name(model)}
    return sent_model(planner, Path(model)), named


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFiles:
    """Files of a sweep, besides its figures."""

    files: tuple[str, ...] = ()
    """Of `csv`, `svg`, `png` and `plans`."""
    prices: Document | None = None
    workers: int = 1


def remote_sweep(
    url: str,
    model: Path,
    common: SearchOptions,
    swept: SweepOptions,
    extras: SweepFiles,
    report: Callable[[str], None],
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a service says of a sweep, and the files that are wanted by their names.

    Raises:
        UserError: the service refuses, or does not answer.
    """  # fmt: skip
    from planner.whatif.composed import clusters_of  # noqa: PLC0415  brings in the planner

    prices = None if extras.prices is None else asdict(extras.prices)
    with connected(url) as planner:
        clusters = ",".join(sent_cluster(planner, name) for name in clusters_of(swept))
        there = asdict(replace(swept, cluster=clusters))
        name = sent_model(planner, model)
        found = planner.sweep(
            name, told(report), sweep=plain_options(there), files=extras.files, prices=prices,
            workers=extras.workers, **plain_options(asdict(common)),
        )  # fmt: skip
        archive = planner.file(found.pop("archive")) if extras.files else None
    return found, {} if archive is None else unpacked(archive)


def unpacked(archive: bytes) -> dict[str, bytes]:
    """The files of an archive by name; a service that is not ours could name any place."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        strange = [name for name in found.namelist() if not _FILE_NAME.fullmatch(name)]
        if strange:
            raise UserError(
                f"the service sent a file called {strange[0][:80]!r}", "--server",
                "is this a service of `planner serve`?",
            )  # fmt: skip
        return {name: found.read(name) for name in found.namelist()}


def remote_verification(
    url: str, model: Path, plan: Path, options: Mapping[str, Any], report: Callable[[str], None]
) -> dict[str, Any]:
    """What a service says of a verification.

    Raises:
        UserError: the service refuses, or does not answer.
    """
    with connected(url) as planner:
        plan_id, name = sent(planner, "plans", plan), sent_model(planner, model)
        return planner.verify(plan_id, name, told(report), **options)


@dataclass(frozen=True, slots=True)
class Files:
    """What a service exported, by name."""

    files: dict[str, bytes]
    notes: tuple[str, ...]


def remote_export(
    url: str, plan: Path, form: Format, output: Path, names: str | None, given: Mapping[str, str]
) -> Files:
    """The files that a service makes of a plan.

    Raises:
        UserError: a file cannot be read, the service refuses, or does not answer.
    """
    settings = {k: v for k, v in given.items() if k not in _FILES}
    files = {
        k: text_of(Path(v), f"--set {k}", "name a file") for k, v in given.items() if k in _FILES
    }
    is_form = form.suffixes or len(form.usual) > 1
    suffix = output.suffix if is_form and output.suffix in {".ckpt", *_SUFFIXES} else None
    with connected(url) as planner:
        if "model" in settings:
            settings["model"] = sent(planner, "models", Path(settings["model"]))
        made = planner.export(
            sent(planner, "plans", plan), form.name,
            suffix=suffix, names=names, settings=settings, files=files,
        )  # fmt: skip
    if not form.is_folder:
        return Files({output.name: made.content}, made.notes)
    return Files(unpacked(made.content), made.notes)


def told(report: Callable[[str], None]) -> Callable[[Mapping[str, Any]], None]:
    """A watcher of events that reports their texts."""
    return lambda event: report(str(event["text"]))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for JSON."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def infeasible(result: Mapping[str, Any]) -> InfeasibleError:
    """The error that a service tells as a result."""
    from ir.plan_estimate import Baseline  # noqa: PLC0415
    from planner.request import InfeasibleError  # noqa: PLC0415

    return InfeasibleError(
        result["message"],
        result["needed_bytes"],
        result["available_bytes"],
        result["memory_by_cause"],
        tuple(result["remedies"]),
        tuple(Baseline(**each) for each in result["baselines"]),
    )
