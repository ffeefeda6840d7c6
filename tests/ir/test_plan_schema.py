"""The schema of plan.json that the docs publish."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from ir.plan_file import plan_schema, plan_to_json
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster

PUBLISHED = Path(__file__).parents[2] / "docs" / "plan.schema.json"
REGENERATE = (
    "write it again: python -c 'import json; from ir.plan_file import plan_schema; "
    "print(json.dumps(plan_schema(), indent=1))' > docs/plan.schema.json"
)


def test_the_published_schema_is_that_of_the_program() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == plan_schema(), REGENERATE


def test_a_plan_fits_the_published_schema() -> None:
    schema = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    plan = search(mlp(2), named_cluster("atlas-800t-a2", 8), SearchRequest())
    data = json.loads(plan_to_json(plan))
    assert not list(Draft202012Validator(schema).iter_errors(data))
    data["operators"][0]["split"] = "columns"
    assert list(Draft202012Validator(schema).iter_errors(data))
