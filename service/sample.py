"""The plan that is there before anybody has searched for one."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

import data
from ir.plan_file import plan_from_json
from service.facts import plan_facts
from service.store.items import NewItem

MODEL = "gpt2"
OPTIONS = {"devices": 8, "batch": 32}
"""What a search is asked for that finds it."""
FILE = ("plans", f"{MODEL}.json.gz")


@cache
def sample_plan() -> NewItem:
    """The bundled plan as the search keeps it."""
    content = gzip.decompress(data.files(*FILE).read_bytes())
    facts: dict[str, Any] = plan_facts(plan_from_json(content.decode()), MODEL, MODEL)
    return NewItem("plan", MODEL, content, facts)
