from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import UnitError
from topology.units import (
    format_bandwidth,
    format_bytes,
    format_flops,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_flops,
    parse_ratio,
    parse_seconds,
)

Parse: TypeAlias = Callable[[str], float]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "64 GiB", 64 * 2**30),
        (parse_bytes, "141GB", 141e9),
        (parse_bytes, "512 B", 512),
        (parse_bandwidth, "30 GB/s", 30e9),
        (parse_bandwidth, "200 Gb/s", 25e9),
        (parse_bandwidth, "1.2 TB/s", 1.2e12),
        (parse_flops, "256 TFLOP/s", 256e12),
        (parse_flops, "512 TOP/s", 512e12),
        (parse_seconds, " 5 us ", 5e-6),
        (parse_seconds, "5 µs", 5e-6),
        (parse_seconds, "1.5e-3 s", 1.5e-3),
        (parse_ratio, "0.65", 0.65),
        (parse_ratio, "65 %", 0.65),
    ],
)
def test_quantities_are_read_in_si_units(parse: Parse, text: str, value: float) -> None:
    assert parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("parse", "text", "fault"),
    [
        (parse_bytes, "64", "'64' has no unit"),
        (parse_bytes, "64 Gib", "unknown unit 'Gib' in '64 Gib'; did you mean 'GiB'?"),
        (parse_bandwidth, "30 GB", "unknown unit 'GB' in '30 GB'"),
        (parse_bandwidth, "fast", "'fast' is not a bandwidth"),
        (parse_bandwidth, "-1 GB/s", "'-1 GB/s' is negative"),
        (parse_seconds, "nan s", "'nan s' is not a duration"),
        (parse_ratio, "1.2", "the ratio '1.2' is above 1"),
        (parse_flops, "", "'' is not a rate of arithmetic"),
    ],
)
def test_a_wrong_quantity_is_told_with_its_text_and_an_example(
    parse: Parse, text: str, fault: str
) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text)
    what, where, fix = str(caught.value).split("\n")
    assert what.startswith(fault)
    assert where.startswith("  at:  ")
    assert fix.startswith("  fix: write ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(0), "0 B"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(12.3 * 2**30), "12.3 GiB"),
        (format_bytes(-(2**20)), "-1 MiB"),
        (format_bytes(2.0**70), "1048576 PiB"),
        (format_seconds(1.234), "1.234 s"),
        (format_seconds(0.0123), "12.3 ms"),
        (format_seconds(0), "0 s"),
        (format_seconds(1e-12), "0.001 ns"),
        (format_seconds(123456), "123456 s"),
        (format_bandwidth(18.2e9), "18.2 GB/s"),
        (format_flops(256e12), "256 TFLOP/s"),
    ],
)
def test_quantities_are_written_with_four_digits_and_a_fitting_unit(
    text: str, expected: str
) -> None:
    assert text == expected


@given(st.floats(1e-9, 1e17))
def test_writing_and_reading_agree_to_the_digits_written(value: float) -> None:
    if value >= 1:
        assert parse_bytes(format_bytes(value)) == pytest.approx(value, rel=1e-3)
        assert parse_bandwidth(format_bandwidth(value)) == pytest.approx(value, rel=1e-3)
        assert parse_flops(format_flops(value)) == pytest.approx(value, rel=1e-3)
    assert parse_seconds(format_seconds(value)) == pytest.approx(value, rel=1e-3)
