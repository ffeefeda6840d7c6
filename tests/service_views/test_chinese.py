"""What the service says has Chinese, and loses nothing: notes, reasons, remarks, refusals."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from costmodel.simulation.step_in_order import in_turn_s
from exporters.errors import ExportError
from exporters.formats import FORMATS
from importers.recipes.reading import recipe_of_texts
from ir.plan import Plan
from ir.plan_estimate import Published
from ir.plan_file import read_plan
from ir.recipes.table import framework, readable_names
from planner.explain import summary, why
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import InfeasibleError
from planner.requests.errors import user_errors
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from planner.requests.sources import model_file, published_model
from planner.search import search
from report.plan import PlanReport
from service.app import create_app
from service.settings import Settings
from service.views.memory import memory_view
from service.views.summary import summary_view
from service.views.timeline import timeline_view
from tests.builders import mlp
from tests.recipes.published import published
from tests.service_views.chinese import cause_is_known, chinese_of, sentences, without_chinese
from tests.service_views.plans_of import FAST, plan_of
from tests.service_views.test_routes import client
from topology.catalogue import named_cluster
from topology.loading import load_machine

ROOT = Path(__file__).parents[2]
CLUSTER = named_cluster("atlas-800t-a2", 8)
OWN = Published("ascend", 91, low=0.5, middle=1.0, high=2.0)
PLANS = ("attention", "products", "layers", "staged")
ASKED = (
    "service", "planner/requests/option_texts.py", "planner/requests/machines.py",
    "planner/requests/errors.py", "planner/requests/search_request.py", "planner/whatif/axes.py",
    "planner/pipeline/preparation.py", "planner/repricing/other_circumstances.py",
    "planner/explain/questions.py", "planner/whatif/tasks.py", "ir/batch.py",
    "ir/batch_following.py",
)  # fmt: skip
"""What the forms of the page run into first."""


@cache
def plan(name: str) -> Plan:
    if name == "inference":
        return search(mlp(3, batch=64), CLUSTER, replace(FAST, training=False))
    if name != "staged":
        return plan_of(name)
    request = replace(FAST, global_batch=256, pipeline="2", micro_batch="64")
    return search_pipeline(mlp(4), CLUSTER, request)


@pytest.mark.parametrize("name", PLANS)
def test_what_a_plan_says_has_chinese(name: str) -> None:
    report = PlanReport(plan(name))
    told = [*report.notes, *(row.reason for row in plan(name).baselines)]
    assert not [line for text in told for line in without_chinese(text)]
    causes = [row.cause for row in report.time]
    causes += [purpose for row in report.time for purpose in row.purposes]
    causes += [*report.estimate.memory_by_cause, *memory_view(plan(name))["causes"]]
    causes += [row["cause"] for row in timeline_view(plan(name))["communication"]]
    assert not [cause for cause in causes if not cause_is_known(cause)]


@pytest.mark.parametrize("published", [None, OWN, replace(OWN, of="")])
def test_what_published_runs_say_has_chinese(published: Published | None) -> None:
    found = plan("products")
    estimate = replace(found.estimate, published=published)
    other = replace(found, estimate=estimate)
    view = summary_view(other)
    turn_s = in_turn_s(found)
    ends = None if published is None else pytest.approx((turn_s / 2, turn_s * 2))
    assert PlanReport(other).expected_s == ends
    assert not without_chinese(view["report"]["notes"]["lines"][-1])


@pytest.mark.parametrize("name", PLANS)
def test_explanations_have_chinese(name: str) -> None:
    found = summary(plan(name))
    told = [*found.limits, *(rival.reason for rival in found.rivals)]
    for operator in plan(name).operators[:3]:
        answer = why(plan(name), operator.name, rivals=1)
        told += [reason.text for rival in answer.rivals for reason in rival.reasons]
    assert told
    assert not [line for text in told for line in without_chinese(text)]


def test_progress_has_chinese() -> None:
    told: list[str] = []
    search(mlp(3), CLUSTER, FAST, told.append)
    search_pipeline(mlp(4), CLUSTER, replace(FAST, global_batch=256), told.append)
    assert told
    assert not [line for text in told for line in without_chinese(text)]


@pytest.mark.parametrize(
    "options",
    [
        {"devices": 12}, {"devices": 0}, {"devices": 16, "batch": 0}, {"cluster": "nowhere"},
        {"devices": 16, "memory": "much"}, {"devices": 16, "memory": "1 MiB"}, {"target": "c"},
        {"devices": 16, "bind": ["batch"]}, {"devices": 16, "bind": ["length=3"]},
        {"devices": 16, "tp": 4, "dp": 8}, {"devices": 16, "tp": 3}, {"devices": 16, "dp": 0},
        {"devices": 16, "solver": "luck"}, {"devices": 16, "dtype": "fp8"},
        {"devices": 16, "pipeline": "2"}, {"devices": 16, "batch": 8, "global_batch": 8},
        {"devices": 16, "global_batch": 64, "pipeline": "7"},
        {"devices": 16, "global_batch": 64, "micro_batch": "7"},
        {"devices": 16, "global_batch": 64, "phase": "infer"}, {"pipeline": "many"},
        {"micro_batch": "x"}, {"interleave": "x"}, {"context_parallel": "x"},
    ],
)  # fmt: skip
def test_what_a_form_asks_wrongly_is_refused_in_chinese(options: dict[str, object]) -> None:
    with pytest.raises((*user_errors(), InfeasibleError)) as refused:
        question(published_model("gpt2"), SearchOptions(**options)).plan()  # type: ignore[arg-type]
    assert not without_chinese(str(refused.value))
    remedies = getattr(refused.value, "remedies", ())
    assert not [line for text in remedies for line in without_chinese(text)]


def test_what_the_service_refuses_has_chinese(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'jobs.sqlite'}", data=tmp_path, workers=0)
    asked = [
        ("/v1/searches", {}), ("/v1/searches", {"model": "m_nothing"}),
        ("/v1/searches", {"model": "gpt2", "options": {"devices": "many"}}),
        ("/v1/searches", {"model": "gpt2", "options": {"cluster": "nowhere"}}),
        ("/v1/searches", {"model": "m_" + "0" * 32}), ("/v1/searches", {"model": "gpt2", "no": 1}),
        ("/v1/sweeps", {"model": "gpt2", "sweep": {"devices": "few"}}),
        ("/v1/sweeps", {"model": "gpt2", "sweep": {"vary": ["speed=2"]}}),
        ("/v1/exports", {"plan": "p_" + "0" * 32, "format": "jax"}),
    ]  # fmt: skip
    with TestClient(create_app(settings)) as asking:
        answers = [asking.post(path, json=body) for path, body in asked]
        answers += [asking.get(f"/v1/jobs/j_{'0' * 32}"), asking.get("/v1/jobs?limit=0")]
        answers += [asking.post("/v1/clusters?name=x.txt", content=b"x")]
        answers += [asking.post("/v1/clusters?name=x.yaml", content=b"")]
    answers += [
        client().get(f"/v1/plans/{path}")
        for path in (
            "layers/views/nothing", "layers/views/whatif?devices=12",
            "layers/views/whatif?bandwidth=server", "layers/views/whatif?bandwidth=nowhere:2",
            "layers/views/whatif?bandwidth=server:-1", "layers/views/why/no_such_operator",
        )
    ]  # fmt: skip
    assert all(answer.status_code >= 400 for answer in answers)
    told = [answer.json()["message"] for answer in answers]
    assert not [line for text in told for line in without_chinese(text)]


@pytest.mark.fast
@pytest.mark.parametrize("name", [*PLANS, "inference"])
def test_what_an_export_refuses_has_chinese(name: str, tmp_path: Path) -> None:
    told = []
    for form in FORMATS.values():
        try:
            form.writer(plan(name), None)(tmp_path / f"{form.name}{form.forms[0]}")
        except ExportError as refused:
            told.append(str(refused))
    assert told
    assert not [line for text in told for line in without_chinese(text)]


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "mixtral-8x7b", "bert-base"])
def test_what_is_assumed_of_a_model_has_chinese(name: str) -> None:
    notes = published_model(name).graph({}).notes
    assert not [line for text in notes for line in without_chinese(text)]


CONFIG = {"model_type": "odd", "hidden_size": 64, "num_hidden_layers": 2}


def read_upload(path: Path) -> object:
    """As jobs read what is uploaded."""
    if path.name == "plan.json":
        return read_plan(path)
    if path.suffix == ".yaml":
        return load_machine(path.read_text(encoding="utf-8"), path.name)
    return model_file(path).graph({})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.onnx", b"no model"), ("a.onnx.gz", b"no archive"), ("a.onnx", b""),
        ("config.json", b"[]"), ("config.json", b"{"), ("config.json", json.dumps(CONFIG).encode()),
        ("a.pt2", b"no archive"), ("a.mlir", b"no module"), ("a.mlir", b"\xff\xfe"),
        ("a.yaml", b"cluster: 3"), ("a.yaml", b"{"), ("a.yaml", b"- 1"), ("a.yaml", b"a: 1\na: 2"),
        ("plan.json", b"{}"), ("plan.json", b"{"), ("plan.json", b"\xff"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_upload_has_chinese(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(user_errors()) as refused:
        read_upload(path)
    assert not without_chinese(str(refused.value))


def _text(node: ast.expr) -> str | None:
    """A string of the sources; X stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
    return None


def refusals(source: Path) -> Iterator[str]:
    """Lines of the errors that a source raises for people: what is wrong, and how to mend it."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in {"UserError", "RequestError", "BatchError", "RefusedError"}:
            continue
        wanted = node.args[:: 2 if node.func.id == "UserError" else 1]
        if node.func.id == "RefusedError":
            wanted = node.args[1:2]
        for line in "\n".join(filter(None, map(_text, wanted))).splitlines():
            is_neutral = line.startswith(("  at:  ", "  fix: --", "--", "Xknown"))
            if re.search("[a-z]{3}", line.removeprefix("  fix: ")) and not is_neutral:
                yield line


@pytest.mark.parametrize("folder", ASKED)
def test_every_refusal_of_the_forms_has_chinese(folder: str) -> None:
    place = ROOT / folder
    sources = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    shown = [source for source in sources if source.stem not in {"client", "engine", "tools"}]
    lines = [line for source in shown for line in refusals(source)]
    assert not [line for line in lines if chinese_of(line, whole=False) is None]


def test_the_chinese_carries_over_whatever_the_english_does() -> None:
    for english, chinese in sentences():
        holes = len(re.findall(r"\{w?\}", english))
        assert {int(n) for n in re.findall(r"\{(\d)\}", chinese)} == set(range(1, holes + 1)), (
            english
        )
        assert re.search("[\u4e00-\u9fff]", re.sub(r"\{\d\}", "", chinese)) or not holes, english


def test_no_sentence_is_given_twice() -> None:
    given = [english for english, _ in sentences()]
    assert len(given) == len(set(given))


def test_numbers_names_and_units_stay_as_they_are() -> None:
    text = "the memory of 58 GiB per device: 1.5 ms of the difference would go without the limit"
    found = chinese_of(text)
    assert found is not None
    assert [part for part in ("58 GiB", "1.5 ms") if part not in found] == []


@pytest.mark.parametrize("name", readable_names())
def test_what_a_framework_advises_and_its_settings_mean_has_chinese(name: str) -> None:
    known = framework(name)
    told = {*filter(None, known.noted.values()), *(text for _, text in known.avoids)}
    assert not [text for text in told if without_chinese(text)]


def warned(source: Path) -> Iterator[str]:
    """Sentences that a source gives out one by one."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        text = _text(node.value) if isinstance(node, ast.Yield) and node.value else None
        if text is not None:
            yield text


def test_every_warning_of_a_recipe_has_chinese() -> None:
    found = list(warned(ROOT / "planner/whatif/recipe_advice.py"))
    assert len(found) >= 10
    assert not [line for line in found if chinese_of(line, whole=False) is None]


def test_what_is_noticed_of_published_recipes_has_chinese() -> None:
    told = []
    for each in published():
        recipe = recipe_of_texts(each.files(), asked=each.framework)
        told += [*recipe.quantities.contradictions, *recipe.notes]
        told += [f"{file.name}: {text}" for file in recipe.files for text in file.remarks]
    assert told
    assert not [line for line in told if chinese_of(line, whole=False) is None]


def test_what_settings_of_exports_mean_has_chinese() -> None:
    told = {each.meaning for form in FORMATS.values() for each in form.settings}
    assert not [text for text in told if without_chinese(text)]
