"""`planner inspect`: what is in a model, before anything is planned."""

from __future__ import annotations

from cli import options
from cli.arguments import at_least_one, bindings

EPILOG = """\b
Examples:
  planner inspect model.onnx
  planner inspect model.onnx --bind batch=32,seq=4096
  planner inspect model.onnx.gz --batch 64 --json

\b
Exit status: 0 done, 2 a fault in the command or the model."""


def inspect(
    model: options.Model,
    *,
    bind: options.Bind = None,
    batch: options.Batch = None,
    as_json: options.Json = False,
) -> None:
    """Count the operators, parameters, FLOPs, activations and blocks of a model."""
    bound = bindings(bind or [])
    if batch is not None:
        at_least_one(batch, "--batch")
    from cli.model_facts import model_facts  # noqa: PLC0415  half a second of imports

    facts = model_facts(model, bound, batch)
    if as_json:
        from cli.plan_json import dumps  # noqa: PLC0415

        print(dumps(facts.to_dict()))
        return
    from cli.model_text import print_facts  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_facts(facts, out)
