"""The table: every operator and tensor once, and nothing that a spreadsheet computes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.table import COLUMNS, to_csv
from ir.plan import Plan
from ir.texts import visible
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast


def rows(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(plan))))


def test_the_table_reads_like_this(plan: Plan) -> None:
    lines = to_csv(plan).splitlines()
    assert lines[0] == "what,name,kind,scope,dims,dtype,split,layout,used,compute_s"
    assert lines[1] == (
        "operator,op0,MatMul,m.layers.0.proj,8x16x1024,bfloat16,server=0 card0=0 card1=1,"
        '"[server*card0*card1, -] [-, card0*card1] -> [-, -, -] +card0*card1",,0.25'
    )
    assert lines[-1] == (
        "parameter,m.layers.1.proj.weight,,,1024x1024,bfloat16,,"
        '"[server*card0, card1]","[-, card1]",'
    )


def test_every_operator_and_tensor_has_a_row(plan: Plan) -> None:
    found = [(row["what"], row["name"]) for row in rows(plan)]
    assert found == [
        *(("operator", op.name) for op in plan.operators),
        *((t.role, t.name) for t in plan.tensors),
    ]
    assert set(rows(plan)[0]) == set(COLUMNS)


def test_the_split_of_every_axis_is_told(plan: Plan) -> None:
    op = replace(plan.operators[0], split=(("server", 2), ("card0", -1)))
    found = rows(replace(plan, operators=(op, *plan.operators[1:])))
    assert found[0]["split"] == "server=2 card0=-"


@given(st.text(min_size=1))
def test_names_stay_names(name: str) -> None:
    plan = tiny_plan()
    tensor = replace(plan.tensors[0], name=name)
    text = to_csv(replace(plan, tensors=(tensor,)))
    text.encode("utf-8")
    assert len(text.splitlines()) == len(plan.operators) + 2
    cell = list(csv.reader(io.StringIO(text)))[-1][1]
    assert cell in {visible(name), f"'{visible(name)}"}
    assert cell[:1] not in tuple("=+-@")
