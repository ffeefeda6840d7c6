"""`planner simulate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

Planner = Callable[..., Run]
SERVED = ("--layout", "dp=2", "llama3-8b", "--servers", "count=2")
LAYOUT = "tp=2,pp=2,dp=4,batch=64,seq=1024,zero=1,sp"


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of two products that search wrote."""
    from ir.plan_file import plan_to_json  # noqa: PLC0415
    from planner.request import SearchRequest  # noqa: PLC0415
    from planner.search import search  # noqa: PLC0415
    from tests.builders import mlp  # noqa: PLC0415
    from topology.catalogue import named_cluster  # noqa: PLC0415

    plan = search(mlp(2, batch=4096), named_cluster("atlas-800t-a2", 16), SearchRequest())
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(plan_to_json(plan), encoding="utf-8")
    return path


def answer(run: Run) -> dict[str, Any]:
    assert run.code == 0, run.err
    return run.json


@pytest.mark.fast
def test_a_plan_is_simulated(planner: Planner, plan_file: Path) -> None:
    run = planner("simulate", plan_file)
    assert run.code == 0, run.err
    for part in ("one step in", "samples/s", "Time of an average device", "Memory"):
        assert part in run.out
    found = answer(planner("simulate", plan_file, "--json"))
    parts = sum(found["computing_s"].values())
    parts += found["exposed_communication_s"] + found["waiting_s"]
    assert parts == pytest.approx(found["step_time_s"])
    assert found["devices"] == 16


def test_the_fullest_stage_is_printed_where_not_all_are(planner: Planner) -> None:
    """With zero-bubble H2 the last stage holds the gradients of many logits."""
    call = ("simulate", "--layout", "pp=16,batch=32,schedule=zb-h2", "llama3-70b")
    curves = answer(planner(*call, "--json"))["memory"]
    fullest = max(curves, key=lambda curve: curve["peak_bytes"])
    assert fullest["device"] == "stage 15"
    line = next(x for x in planner(*call).out.splitlines() if "others" in x)
    assert "most of 4 others: stage 15" in line
    assert f"{fullest['peak_bytes'] / 2**30:.4g} GiB" in line


def test_without_overlap_the_step_is_that_of_the_plan(planner: Planner, plan_file: Path) -> None:
    found = answer(
        planner("simulate", plan_file, "--overlap", "none", "--contention", "none", "--json")
    )
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    hidden = sum(plan["estimate"].get("hidden_by_cause", {}).values())
    whole = plan["estimate"]["step_time_s"] + hidden
    assert found["step_time_s"] == pytest.approx(whole, rel=1e-9)


def test_a_faster_tier_and_another_machine_are_priced(planner: Planner, plan_file: Path) -> None:
    whole = ("--overlap", "none", "--json")
    plain = answer(planner("simulate", plan_file, *whole))["step_time_s"]
    faster = answer(planner("simulate", plan_file, "--bandwidth", "server=4", *whole))
    assert faster["step_time_s"] < plain
    other = answer(planner("simulate", plan_file, "--cluster", "dgx-h100", *whole))
    assert other["step_time_s"] != plain


def test_traces_and_pictures_are_written(planner: Planner, plan_file: Path, tmp_path: Path) -> None:
    trace, plot = tmp_path / "new" / "trace.json", tmp_path / "step.svg"
    found = answer(planner("simulate", plan_file, "--trace", trace, "--plot", plot, "--json"))
    assert found["files"] == [str(trace), str(plot)]
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_unequal_devices_are_drawn_from_a_seed(planner: Planner, plan_file: Path) -> None:
    options = ("--jitter", "lognormal:0.05", "--stragglers", "1x1.5", "--samples", "4", "--json")
    first, again, other = (
        answer(planner("simulate", plan_file, *options, "--seed", seed))["variation"]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first["samples"] == 4
    assert first["mean_s"] > answer(planner("simulate", plan_file, "--json"))["step_time_s"]
    assert "Unequal devices" in planner("simulate", plan_file, *options[:-1]).out


def test_a_layout_is_simulated_without_a_file(planner: Planner) -> None:
    run = planner("simulate", "--layout", LAYOUT, "--cluster", "dgx-h100", "llama3-8b")
    assert run.code == 0, run.err
    for part in (
        "llama3-8b: one step in",
        "tokens/s",
        "Pipeline bubble by cause",
        "stage 1",
        "Notes",
    ):
        assert part in run.out
    found = answer(
        planner("simulate", "--layout", LAYOUT, "--cluster", "dgx-h100", "llama3-8b", "--json")
    )
    assert found["devices"] == 16
    assert found["tokens_per_s"] == pytest.approx(64 * 1024 / found["step_time_s"])
    bubble = found["bubble"]
    causes = ("ideal_s", "imbalance_s", "recomputation_s", "communication_s")
    assert sum(bubble[cause] for cause in causes) == pytest.approx(bubble["total_s"])


@pytest.mark.parametrize(
    "more",
    ["recompute=full", " vpp = 2 ", "schedule=zb-h1", "schedule=dualpipe", "stages=20/12", "cp=2",
     "recompute=selective,recompute-share=0.5", "zero=3"],
)  # fmt: skip
def test_parts_of_a_layout_are_understood(planner: Planner, more: str) -> None:
    text = LAYOUT.replace("zero=1", more) if more.startswith("zero") else f"{LAYOUT},{more}"
    assert answer(planner("simulate", "--layout", text, "llama3-8b", "--json"))["step_time_s"] > 0


@pytest.mark.parametrize("stages", [5, 8])
def test_the_usual_batch_lets_chunks_take_turns(planner: Planner, stages: int) -> None:
    run = planner("simulate", "--layout", f"pp={stages},vpp=2", "llama3-8b", "--json")
    assert answer(run)["step_time_s"] > 0


def test_experts_may_be_uneven(planner: Planner) -> None:
    times = [
        answer(planner("simulate", "--layout", f"dp=8,ep=8,seq=1024,batch=16,imbalance={x}",
                       "mixtral-8x7b", "--json"))["step_time_s"]
        for x in ("1", "1.5")
    ]  # fmt: skip
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("profile", "usual"), [("megatron", "decomposed"), ("megatron-core", "fused")]
)
def test_attention_is_that_of_the_software_unless_told(
    planner: Planner, profile: str, usual: str
) -> None:
    def step_s(*more: str) -> float:
        call = ("simulate", "--layout", "dp=8,batch=8,seq=4096", "--cluster", "dgx-a100")
        told = planner(*call, "llama3-8b", "--profile", profile, *more, "--json")
        return float(answer(told)["step_time_s"])

    assert step_s() == step_s("--attention", usual)
    assert step_s("--attention", "decomposed") > 1.1 * step_s("--attention", "fused")


def test_the_exchange_between_experts_may_overlap(planner: Planner) -> None:
    layout = "dp=16,ep=16,seq=1024,batch=16"
    times = [
        answer(planner("simulate", "--layout", layout + more, "--cluster", "h100", "deepseek-v3",
                       "--json"))["step_time_s"]
        for more in (",ep-overlap=0", "", ",ep-overlap")
    ]  # fmt: skip
    assert times[0] == times[1] > times[2]


def test_further_tokens_are_predicted_as_the_configuration_says_or_the_layout(
    planner: Planner,
) -> None:
    def asked(more: str, model: str = "deepseek-v3") -> dict[str, Any]:
        layout = f"dp=16,ep=16,seq=1024,batch=16{more}"
        return answer(planner("simulate", "--layout", layout, "--overlap", "none", model, "--json"))

    none, usual, one, two = (asked(more) for more in (",mtp=0", "", ",mtp=1", ",mtp=2"))
    assert usual["step_time_s"] == one["step_time_s"]
    assert none["step_time_s"] < one["step_time_s"] < two["step_time_s"]
    assert none["peak_memory_bytes"] < one["peak_memory_bytes"] < two["peak_memory_bytes"]
    for found in (none, usual, two):
        assert found["step_time_s"] == pytest.approx(found["estimate_s"], rel=1e-9)
    assert "MTP layers" not in none["facts"]
    assert (usual["facts"]["MTP layers"], two["facts"]["MTP layers"]) == (1, 2)
    assert "mtp=0 for none" in usual["notes"][0]
    assert not any("mtp" in note for found in (none, two) for note in found["notes"])


def test_a_config_json_names_its_model(planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / "tiny" / "config.json"
    path.parent.mkdir()
    sizes = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4,
             "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1000}  # fmt: skip
    path.write_text(json.dumps(sizes), encoding="utf-8")
    run = planner("simulate", "--layout", "dp=4,seq=128", path)
    assert run.out.startswith("tiny: one step in")


@pytest.mark.fast
def test_parameter_servers(planner: Planner) -> None:
    call = ("simulate", "--layout", "dp=8,micro=8,batch=64,seq=512", "bert-base", "--servers")
    run = planner(*call, "count=2,mode=async,lose=worker@60,downtime=5,horizon=120")
    assert run.code == 0, run.err
    assert "8 asynchronous workers with 2 servers" in run.out
    assert "samples instead of" in run.out
    more = answer(planner(*call, "count=4", "--json"))
    less = answer(planner(*call, "count=1", "--json"))
    assert less["samples_per_s"] < more["samples_per_s"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--layout", "tp=3", "llama3-8b"), "32 heads do not split over tp=3"),
        (("--layout", "tp=0", "llama3-8b"), "tp=0 is no whole number"),
        (("--layout", "tp=-2", "llama3-8b"), "tp=-2 is no whole number"),
        (("--layout", "tp=two", "llama3-8b"), "tp=two is no whole number"),
        (("--layout", "tq=2", "llama3-8b"), "did you mean 'tp'?"),
        (("--layout", "tp=2,tp=2", "llama3-8b"), "tp is given twice"),
        (("--layout", "pp=64", "llama3-8b"), "fewer than pp*vpp=64"),
        (("--layout", "dp=3,batch=8", "llama3-8b"), "no multiple of micro*dp=3"),
        (("--layout", "zero=4", "llama3-8b"), "ZeRO has stages 0 to 3"),
        (("--layout", "ep=2,dp=2", "llama3-8b"), "0 experts do not split over ep=2"),
        (("--layout", "stages=1/2,pp=2", "llama3-8b"), "are not 2 stages of 32 layers"),
        (("--layout", "vpp=2", "llama3-8b"), "vpp needs pp"),
        (("--layout", "pp=4,vpp=2,batch=3", "llama3-8b"), "no multiple of pp=4"),
        (("--layout", "dp=8,micro=2,batch=100", "llama3-8b"), "give batch=96 or 112, or choose"),
        (("--layout", "recompute-share=0.5", "llama3-8b"), "but recompute is none"),
        (("--layout", "imbalance=1.5", "llama3-8b"), "llama3-8b has none"),
        (("--layout", "recompute=some", "llama3-8b"), "unknown recomputation 'some'"),
        (("--layout", "recompute-share=2", "llama3-8b"), "not between 0 and 1"),
        (("--layout", "mtp=65", "llama3-8b"), "mtp=65 is no whole number from 0 to 64"),
        (("--layout", "mtp=1", "bert-base"), "which bert-base does not"),
        (("--layout", "schedule=2f2b", "llama3-8b"), "unknown schedule '2f2b'"),
        (("--layout", "imbalance=0.5", "llama3-8b"), "not between 1 and 1000"),
        (("--layout", "sp=maybe", "llama3-8b"), "neither 0 nor 1"),
        (("--layout", "pp=2,batch=9000000,dp=1", "llama3-8b"), "larger micro-batches"),
        (("--layout", "pp=3,schedule=dualpipe,batch=12", "llama3-8b"), "even number of stages"),
        (("--layout", "pp=2,vpp=2,schedule=dualpipe", "llama3-8b"), "one chunk of layers"),
        (("--layout", "dp=2,ep-overlap", "mixtral-8x7b"), "but ep is 1"),
        (("--layout", "tp=2", "llama9"), "neither a file nor a published model 'llama9'"),
        (("--layout", "tp=2", "t5-base"), "text to text"),
        (("--layout", "tp=2", "llama3-8b", "--cluster", "abacus"), "unknown machine 'abacus'"),
        (("--layout", "tp=2", "llama3-8b", "--cluster", "h1000"), "did you mean 'h100'?"),
        (("--layout", "tp=2", "llama3-8b", "--precision", "int3"), "int3"),
        (("--layout", "tp=2", "llama3-8b", "--profile", "word"), "unknown software profile 'word'"),
        (("--layout", "tp=2", "llama3-8b", "--optimizer", "mumon"), "did you mean 'muon'?"),
        (("--layout", "tp=2", "llama3-8b", "--attention", "flesh"), "attention kernel 'flesh'"),
        (("--layout", "tp=2", "llama3-8b", "--bandwidth", "server=2"), "--bandwidth is for plans"),
        (("--layout", "tp=2", "llama3-8b", "--servers", "count=2"), "a replica is 2 devices"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "count=0"), "no number of servers"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "lose=worker@x"), "lose=worker@60"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "lose=2xworker@60"), "2 of 2 workers"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "lose=server@60"), "none is left"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "slow=3x2"), "3 workers are slow, of 2"),
        (
            ("--layout", "dp=2", "llama3-8b", "--servers", "downtime=30"),
            "no member is lost or added",
        ),
        (("--layout", "dp=2", "llama3-8b", "--stragglers", "3x1.5"), "3 stragglers of 2 devices"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "port=fast"), "port="),
        (("--layout", "dp=2", "llama3-8b", "--servers", "port=0GB/s"), "port=0GB/s moves nothing"),
        (("--layout", "dp=2", "llama3-8b", "--servers", "update=-1"), "no time in seconds"),
        (("--servers", "count=2", "llama3-8b"), "there is no plan llama3-8b"),
        ((*SERVED, "--stragglers", "1x2"), "--stragglers is not for parameter servers"),
        ((*SERVED, "--overlap", "none"), "--overlap is not for parameter servers"),
        ((*SERVED, "--trace", "served.json"), "--trace is not for parameter servers"),
    ],
)
def test_a_layout_that_cannot_be_is_named(
    planner: Planner, arguments: tuple[str, ...], told: str
) -> None:
    run = planner("simulate", *arguments)
    assert run.code == 2, run.out + run.err
    assert told in run.err
    assert "Traceback" not in run.err
    assert "fix:" in run.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--bandwidth", "server"), "names no factor"),
        (("--bandwidth", "rack=2"), "no tier 'rack'"),
        (("--bandwidth", "server=-1"), "bandwidth factor"),
        (("--bandwidth", "server=fast"), "'fast' is no number"),
        (("--cluster", "atlas-800-9000"), "the plan is for tiers of 2 x 8"),
        (("--cluster", "nowhere"), "unknown cluster 'nowhere'"),
        (("--contention", "some"), "unknown contention 'some'"),
        (("--fusion", "broadcast=auto"), "unknown kind of collective"),
        (("--fusion", "all_reduce=often"), "unknown mode"),
        (("--fusion", "all_reduce=auto:3"), "unknown mode 'auto:3'"),
        (("--jitter", "normal:0.1", "--seed", "-1"), "--seed -1"),
        (("--precision", "fp8"), "--precision is for layouts"),
        (("--profile", "megatron-core"), "--profile is for layouts"),
        (("--optimizer", "lamb"), "--optimizer is for layouts"),
        (("--fusion", "all_reduce=size:-1"), "a bucket of -1 MiB"),
        (("--fusion", "all_gather=index:1"), "not fused by index"),
        (("--fusion", "all_reduce=index:9,3"), "ascending"),
        (("--prefetch", "-1"), "give a whole number, 0 or more"),
        (("--interference", "1"), "give 0 to below 1"),
        (("--jitter", "cauchy:1"), "unknown distribution"),
        (("--jitter", "normal:-1"), "width"),
        (("--spread", "normal:x"), "no number"),
        (("--stragglers", "many"), "2x1.3"),
        (("--stragglers", "1x0.5"), "2x1.3"),
        (("--samples", "0"), "from 1 to 1000"),
        (("--plot", "step.pdf"), "cannot write a picture as 'pdf'"),
    ],
)
def test_an_option_that_cannot_be_is_named(
    planner: Planner,
    plan_file: Path,
    arguments: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = planner("simulate", plan_file, *arguments)
    assert run.code == 2, run.out + run.err
    assert told in run.err
    assert "fix:" in run.err
    assert not list(tmp_path.iterdir())


def test_what_is_no_plan_is_refused(planner: Planner, tmp_path: Path) -> None:
    missing = planner("simulate", tmp_path / "plan.json")
    assert missing.code == 2
    assert "cannot read" in missing.err
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    assert "is not a plan" in planner("simulate", other).err


def test_a_plan_of_an_earlier_version_says_so(
    planner: Planner, plan_file: Path, tmp_path: Path
) -> None:
    record = json.loads(plan_file.read_text(encoding="utf-8"))
    for tensor in record["tensors"]:
        del tensor["update_s"]
    del record["memory_bytes"]
    old = tmp_path / "plan.json"
    old.write_text(json.dumps(record), encoding="utf-8")
    run = planner("simulate", old)
    assert run.code == 2
    assert "an earlier version wrote it" in run.err
    assert "fix: plan again" in run.err


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("operators", 0, "recompute_s"), -1.0),
        (("operators", 0, "backward_s"), 1e9),
        (("tensors", 0, "update_s"), -1.0),
        (("collectives", 0, "backward"), 9),
        (("collectives", 0, "count"), 0),
        (("collectives", 0, "kind"), "whisper"),
        (("collectives", 0, "operator"), "nobody"),
        (("collectives", 0, "axes"), ["sideways"]),
        (("memory_bytes",), [-1.0]),
        (("cluster", "tiers"), []),
    ],
)
def test_a_plan_changed_by_hand_is_refused(
    planner: Planner, plan_file: Path, tmp_path: Path, place: tuple[Any, ...], value: object
) -> None:
    record = json.loads(plan_file.read_text(encoding="utf-8"))
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    changed = tmp_path / "plan.json"
    changed.write_text(json.dumps(record), encoding="utf-8")
    run = planner("simulate", changed)
    assert run.code == 2, run.out + run.err
    assert "Traceback" not in run.err
    assert "at:" in run.err
