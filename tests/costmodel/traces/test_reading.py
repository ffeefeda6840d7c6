"""Profiles of every format, and files that are none."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.traces.events import header_and_events
from costmodel.traces.reading import read_trace
from costmodel.traces.records import Trace, class_of
from costmodel.traces.spans import own_seconds, together_s, union

pytestmark = pytest.mark.fast

OWN = Path("tests/data/traces")


def gpu_trace(tmp_path: Path, events: list[dict[str, Any]], **head: Any) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**head, "traceEvents": events}))
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}


def test_a_real_trace_of_torch_has_kernels_by_class_and_messages_with_their_bytes() -> None:
    found = read_trace(OWN / "ddp_gloo.json.gz")
    assert (found.format, found.ranks) == ("torch.profiler", 2)
    assert {"products", "streams"} <= set(found.seconds)
    sent = {each.kind: each for each in found.messages}
    parameters = 64 * 256 + 256 + 256 * 64 + 64
    assert (sent["all_reduce"].nbytes, sent["all_reduce"].calls) == (4 * parameters, 2)
    assert (sent["all_gather"].nbytes, sent["all_gather"].ranks) == (4 * 128 * 64, 2)


def test_products_of_a_real_trace_are_those_of_the_network() -> None:
    found = read_trace(OWN / "ddp_gloo.json.gz")
    done = sum(each.calls * each.flops for each in found.kernels)
    forward = 2 * 2 * 128 * 64 * 256
    assert done == 2 * (3 * forward - forward // 2)  # the input has no gradient


def test_a_real_trace_of_a_gpu_has_the_work_of_its_network_and_its_launches() -> None:
    found = read_trace(OWN / "gpt_h200.json.gz")
    assert found.device == "NVIDIA H200"
    rows, width, words = 4 * 1024, 1600, 50257
    layer = 12 * width * width
    done = sum(each.calls * each.flops for each in found.kernels)
    assert done == 3 * 2 * rows * (4 * layer + width * words)
    assert {"products", "attention", "update", "streams"} == set(found.seconds)
    assert len(found.launches_s) > 100
    assert 0.9 < found.busy_s / found.span_s <= 1


def test_a_real_trace_of_jax_counts_its_runs() -> None:
    found = read_trace(OWN / "jax_cpu.json.gz")
    assert (found.format, found.steps) == ("JAX", 2)
    assert found.seconds["products"] > 0


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("packed", [True, False])
def test_half_a_trace_is_named(tmp_path: Path, share: float, packed: bool) -> None:
    content = (OWN / "ddp_gloo.json.gz").read_bytes()
    content = content if packed else gzip.decompress(content)
    path = tmp_path / "half.json"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CalibrationError, match=r"ends in the middle[\s\S]*half\.json"):
        read_trace(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither msprof"), ("{}", "no traceEvents"), ("[]", "no traceEvents"),
        ('{"traceEvents": []}', "no kernel"), ('{"traceEvents": [1, null, "x"]}', "no kernel"),
        ('{"traceEvents": [{"ph": "X", "ts": "a", "dur": NaN, "name": 3}]}', "no kernel"),
        ('{"traceEvents": [' + "[" * 100_000, "nested too deep"), ("\x00\x01\x02", "neither"),
        ("a,b\n1,2\n", "neither msprof"),
        ("Op Name,Task Duration(us)\nmatmul\n", "row 2 has 1 of 2 columns"),
        ("Op Name,Task Duration(us)\nmatmul,-3\n", "where a number is due"),
        ("Op Name,Task Duration(us)\nmatmul,nan\n", "where a number is due"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=said):
        read_trace(path)


class Long(io.StringIO):
    """A trace that is longer than anything that is held of it."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        one = '{"ph": "X", "name": "' + "k" * 400 + '"},'
        self.pieces = iter(['{"traceEvents": [', *([one * 500] * pieces), "{}]}"])

    def read(self, _: int | None = -1) -> str:
        return next(self.pieces, "")


def test_memory_does_not_grow_with_a_trace() -> None:
    tracemalloc.start()
    _, events = header_and_events(Long(60), "long.json")  # 12 MiB
    assert sum(1 for _ in events) == 60 * 500 + 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * 2**20


def test_an_event_without_end_is_refused() -> None:
    file = io.StringIO('{"traceEvents": [{"name": "' + "x" * 2**23)
    _, events = header_and_events(file, "long.json")
    with pytest.raises(CalibrationError, match="has no end"):
        next(events)


def test_kernels_of_a_device_take_the_shapes_of_what_started_them(tmp_path: Path) -> None:
    dims = {"Input Dims": [[8, 4], [4, 2]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    path = gpu_trace(
        tmp_path,
        [
            event("cpu_op", "aten::mm", 0, 5, **{"External id": 7, **dims}),
            event("kernel", "sm90_xmma_x", 10, 20, **{"External id": 7}),
            event("kernel", "vectorized_elementwise_kernel", 30, 5),
            event("user_annotation", "ProfilerStep#3", 0, 30),
            event("user_annotation", "ProfilerStep#4", 30, 30),
            event("cuda_runtime", "cudaLaunchKernel", 0, 1),
            event("cuda_runtime", "cudaLaunchKernelExC", 4, 1),
        ],
        deviceProperties=[{"id": 0, "name": "NVIDIA H100"}],
    )
    found = read_trace(path)
    (product,) = [each for each in found.kernels if each.group == "products"]
    assert (product.product, product.dtype, product.calls) == ((1, 8, 2, 4), "bfloat16", 1)
    assert product.seconds == pytest.approx(20e-6)
    assert (found.steps, found.device) == (2, "NVIDIA H100")
    assert found.launches_s == pytest.approx((4e-6,))


def test_a_message_hides_where_a_kernel_runs_beside_it(tmp_path: Path) -> None:
    facts = {"In msg nelems": 1000, "dtype": "BFloat16", "Group size": 4}
    path = gpu_trace(
        tmp_path,
        [
            event("kernel", "gemm", 0, 10),
            event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 4, 12, **facts),
        ],
    )
    found = read_trace(path)
    assert found.hidden_s == pytest.approx(6e-6)
    (message,) = found.messages
    assert (message.kind, message.nbytes, message.ranks) == ("all_reduce", 2000.0, 4)


MSPROF = """Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),\
Task Wait Time(us),Input Shapes,Input Data Types
0,MatMul_1,MatMulV2,AI_CORE,100.0,250.5,1.0,"4096,1024;1024,512",DT_BF16;DT_BF16
0,Gelu_2,Gelu,AI_VECTOR_CORE,360.0,20,1.0,"4096,512",DT_BF16
0,hcom_allReduce__1,hcom_allReduce_,HCCL,300.0,100,0,N/A,N/A
"""
NSYS = """Generating SQLite file

Start (ns),Duration (ns),CorrId,Strm,Name
1000,2000,1,7,ampere_bf16_s16816gemm_bf16_128x128
4000,500,2,7,"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernel>"
"""
SUMS = """Time (%),Total Time (ns),Instances,Avg (ns),Name
90.0,"9,000",3,3000,sm90_xmma_gemm_bf16
10.0,1000,1,1000,ncclDevKernel_AllGather_RING_LL
"""
STATISTIC = """Device_id,OP Type,Count,Total Time(us),Min Time(us),Ratio(%)
0,hcom_allGather_,12,1200.0,50.0,60.0
"""


def table(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return read_trace(path)


def test_op_summary_has_shapes_types_and_messages(tmp_path: Path) -> None:
    found = table(tmp_path, MSPROF)
    assert found.format == "msprof"
    (product,) = [each for each in found.kernels if each.group == "products"]
    assert (product.product, product.dtype) == ((1, 4096, 512, 1024), "bfloat16")
    assert found.hidden_s == pytest.approx(70.5e-6)  # 300 to 350.5, 360 to 380
    assert [each.kind for each in found.messages] == ["all_reduce"]


def test_tables_of_nsight_systems_are_read_with_and_without_times(tmp_path: Path) -> None:
    found = table(tmp_path, NSYS)
    assert found.format == "Nsight Systems"
    assert found.span_s == pytest.approx(3.5e-6)
    assert found.seconds == pytest.approx({"products": 2e-6, "streams": 0.5e-6})
    found = table(tmp_path, SUMS)
    assert found.seconds == pytest.approx({"products": 9e-6})
    assert [each.kind for each in found.messages] == ["all_gather"]


def test_a_communication_table_counts_calls(tmp_path: Path) -> None:
    (message,) = table(tmp_path, STATISTIC).messages
    assert (message.kind, message.calls) == ("all_gather", 12)
    assert message.seconds == pytest.approx(1.2e-3)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("aten::addmm", "products"), ("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "products"),
        ("sm90_xmma_fprop_implicit_gemm_bf16", "products"), ("dot.12", "products"),
        ("pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "attention"),
        ("aten::_scaled_dot_product_flash_attention", "attention"),
        ("FlashAttentionScoreGrad", "attention"), ("ncclDevKernel_SendRecv", "messages"),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor>", "update"),
        ("convert_element_type_fusion", "streams"), ("softmax_warp_forward", "streams"),
    ],
)  # fmt: skip
def test_names_of_kernels_tell_their_class(name: str, group: str) -> None:
    assert class_of(name) == group


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=12)


@given(SPANS, SPANS)
def test_time_together_is_counted_as_moment_by_moment(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    moments = [{t for begin, n in part for t in range(begin, begin + n)} for part in (one, other)]
    spans = [union([(float(b), float(b + n)) for b, n in part]) for part in (one, other)]
    assert together_s(*spans) == len(moments[0] & moments[1])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_own_time_of_nested_calls_sums_to_the_whole(parts: list[int]) -> None:
    calls, begin = [(0.0, float(sum(parts)))], 0.0
    for part in parts:
        calls.append((begin, float(part)))
        begin += part
    own = own_seconds(calls)
    assert sum(own) == sum(parts)
    assert own[0] == 0


STEPS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
    "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\n"
    "0,1,700.5,200,100,300,99.5,1000,0,200,3\n"
    "0,2,800,100,200,300,100,1000,0,100,3\n"
)


def test_a_table_of_steps_tells_what_each_step_took(tmp_path: Path) -> None:
    path = tmp_path / "step_trace_time.csv"
    path.write_text(STEPS)
    found = read_trace(path)
    assert found.steps == 2
    assert found.span_s == pytest.approx(2e-3)
    assert found.seconds == {
        "computation": pytest.approx(750.25e-6), "exposed communication": pytest.approx(150e-6),
        "idle": pytest.approx(99.75e-6), "step": pytest.approx(1e-3),
    }  # fmt: skip
    assert found.message_s == pytest.approx(6e-4)
    assert found.hidden_s == pytest.approx(3e-4)


def test_ranks_of_a_table_of_steps_are_counted_and_stages_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cluster_step_trace_time.csv"
    head = "Step,Type,Index,Computing,Communication(Not Overlapped),Free"
    path.write_text(f'{head}\n1,rank,0,8,1,1\n1,rank,1,6,3,1\n1,stage,"(0, 1)",8,3,1\n')
    found = read_trace(path)
    assert (found.ranks, found.steps) == (2, 2)
    assert found.seconds["step"] == pytest.approx(10e-6)


@pytest.mark.parametrize("bad", ["0,1,700,many,1,1,1", "0,1,-7,2,1,1,1", "0,1"])
def test_a_table_of_steps_that_is_broken_names_the_row(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "step_trace_time.csv"
    path.write_text(STEPS + bad + "\n")
    with pytest.raises(CalibrationError, match="row 4"):
        read_trace(path)


def test_a_table_without_a_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step_trace_time.csv"
    path.write_text(STEPS.splitlines()[0] + "\n")
    with pytest.raises(CalibrationError, match="no step"):
        read_trace(path)
