"""The options of `planner explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from planner.requests.options.option import CALIBRATION, Group, Option
from planner.requests.sources import Document

OPERATOR = Option(
    group=Group.QUESTION, value="NAME", first=True, flags=("--op",),
    help="Print this operator alone: its name, or its scope where that names one operator.",
)  # fmt: skip
WHY_NOT = Option(
    group=Group.QUESTION, value="DEGREES|PIN",
    help="Plan again held to this, and split the difference by cause: tp=8,dp=2, zero3, pp=4, "
    "or NAME=((2,4),(4,1)). May be given several times.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationOptions:
    """What `planner explain` was asked; its `--help` explains each."""

    # fmt: off
    op: Annotated[str | None, OPERATOR] = None
    tensor: Annotated[str | None, Option(
        group=Group.QUESTION, value="NAME", help="Explain the layout of this tensor.",
    )] = None
    rivals: Annotated[int, Option(
        group=Group.QUESTION, value="N", unit="candidates", least=0, most=20,
        help="Runner-up candidates to explain.",
    )] = 3
    cuts: Annotated[str | None, Option(
        group=Group.QUESTION, value="CUTS",
        help="With --op: explain this split, such as '((2,4),(4,1))'.",
    )] = None
    why_not: Annotated[tuple[str, ...], WHY_NOT] = ()
    calibration: Annotated[Document | None, CALIBRATION] = None
    sensitivity: Annotated[bool, Option(
        group=Group.QUESTION,
        help="Within which range of bandwidth, batch and memory the plan stays the best.",
    )] = False
    # fmt: on
