import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives import Collective
from costmodel.link_calibration.logs import Assumed, read_log
from costmodel.link_calibration.measurements import CalibrationError, GroupShape

HCCL = """\
mpirun -n 16 ./bin/all_reduce_test -p 8 -b 8K -e 64M -f 2 -d fp32 -o sum
the minbytes is 8192, maxbytes is 67108864, iters is 20, warmup_iters is 5
data_size(Bytes):   | aveg_time(us):  | alg_bandwidth(GB/s):  | check_result:
8192                | 25.10           | 0.32637               | success
65536               | 26.40           | 2.48242               | NULL
1048576             | 42.20           | 24.84777              | failed
67108864            | 980.10          | 68.47145              | success
"""

NCCL = """\
# Collective test starting: reduce_scatter_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   6733 on node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   6734 on node-b device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#
#                                                       out-of-place                    in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)
        1024           256     float     sum      -1    28.02    0.04    0.03      0    27.60
     1048576        262144     float     sum      -1    71.59   14.65   10.99      0    70.10
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.51
"""

CSV = """\
id,system,op,devices,servers,message_bytes,time_us,algo
1,one,all_gather,4,1,1024,10.5,
2,one,alltoall,8,2,2048,20,Ring
3,other,all_gather,4,1,4096,12,
4,one,latency of a kernel,4,1,4096,12,
5,one,all_gather,4,1,none,12,
"""


def test_a_table_of_hccl_test() -> None:
    log = read_log(HCCL, "run.log", Assumed())
    assert log.format == "hccl_test"
    assert {each.group for each in log.measurements} == {GroupShape(Collective.ALL_REDUCE, 16, 2)}
    assert [each.nbytes for each in log.measurements] == [8192, 65536, 67108864]
    assert log.measurements[0].time_s == pytest.approx(25.10e-6)
    assert log.skipped == ("run.log:6: the result was wrong",)


def test_a_table_of_nccl_tests() -> None:
    log = read_log(NCCL, "run.log", Assumed())
    assert log.format == "nccl-tests"
    assert {each.group for each in log.measurements} == {
        GroupShape(Collective.REDUCE_SCATTER, 4, 2)
    }
    sizes = [each.nbytes for each in log.measurements]
    assert sizes == [1024, 1048576]
    assert [each.time_s for each in log.measurements] == pytest.approx([28.02e-6, 71.59e-6])


def test_older_tables_of_nccl_tests_lack_columns() -> None:
    text = """\
#       size    count    type     time   algbw   busbw  error     time
        1024      256   float    28.02    0.04    0.03    N/A    27.60
"""
    log = read_log(text, "logs/all_gather_8.txt", Assumed(ranks=8))
    (only,) = log.measurements
    assert only.group == GroupShape(Collective.ALL_GATHER, 8)
    assert only.time_s == pytest.approx(28.02e-6)


def test_a_csv_with_several_systems() -> None:
    log = read_log(CSV, "all.csv", Assumed(system="one"))
    assert [each.group for each in log.measurements] == [
        GroupShape(Collective.ALL_GATHER, 4),
        GroupShape(Collective.ALL_TO_ALL, 8, 2, "ring"),
    ]
    assert [line.split(":")[1] for line in log.skipped] == ["5", "6"]
    assert len(read_log(CSV, "all.csv", Assumed()).measurements) == 3


def test_a_csv_without_names_of_groups_takes_them_from_the_command() -> None:
    text = "bytes,time_s\n1024,1e-5\n"
    log = read_log(text, "x.csv", Assumed(Collective.BROADCAST, 4))
    (only,) = log.measurements
    assert only.group == GroupShape(Collective.BROADCAST, 4)
    assert only.time_s == pytest.approx(1e-5)
    with pytest.raises(CalibrationError, match="--kind all_reduce --ranks 8"):
        read_log(text, "x.csv", Assumed())


def test_a_table_that_does_not_say_what_was_measured() -> None:
    table = "\n".join(HCCL.splitlines()[2:])
    with pytest.raises(CalibrationError) as error:
        read_log(table, "run.log", Assumed())
    assert "which collective was measured and on how many ranks" in str(error.value)
    assert "at:  run.log" in str(error.value)
    told = read_log(table, "run.log", Assumed(Collective.ALL_REDUCE, 8))
    assert told.measurements[0].group == GroupShape(Collective.ALL_REDUCE, 8)


@pytest.mark.parametrize("text", ["", "hello\n", "a,b\n1,2\n", '{"size": 1}', "\x00" * 99])
def test_files_of_another_kind(text: str) -> None:
    with pytest.raises(CalibrationError, match="neither output of hccl_test or nccl-tests nor"):
        read_log(text, "x", Assumed())


@pytest.mark.parametrize("row", ["1024|nan", "1024|-1", "0|5", "9999999999999999999|5", "1024|x"])
def test_impossible_rows_are_left_out(row: str) -> None:
    size, time = row.split("|")
    text = f"data_size(Bytes): | aveg_time(us): | bandwidth\n{size} | {time} | 1 | success\n"
    log = read_log(text, "x", Assumed(Collective.ALL_REDUCE, 8))
    assert not log.measurements
    assert len(log.skipped) == 1


@given(st.text(max_size=300), st.sampled_from([HCCL, NCCL, CSV]), st.integers(0, 400))
def test_garbage_inside_a_log_is_an_error_or_is_skipped(junk: str, text: str, at: int) -> None:
    spoilt = text[:at] + junk + text[at:]
    try:
        log = read_log(spoilt, "x", Assumed(Collective.ALL_REDUCE, 8))
    except CalibrationError:
        return
    assert all(each.nbytes > 0 and each.time_s > 0 for each in log.measurements)
