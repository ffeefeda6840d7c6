"""The operations of a service as tools of the Model Context Protocol.

A tool's input is the body of the request: the same records of options, with the same help. What a
call may take is what the service gives one job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import mcp_types as types
from anyio.from_thread import run as in_loop
from anyio.to_thread import run_sync
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.requests.errors import UserError
from service.client import Planner, ServiceError
from service.routes.bodies import (
    ExplanationBody,
    LayoutsBody,
    Name,
    PlanId,
    RecipeBody,
    SearchBody,
    SimulationBody,
)
from service.version import planner_version

__all__ = ["Door", "tool_server"]

CALLS = 16
"""That are answered at once; further ones wait."""
MOST_BYTES = 2**26
"""Of a file that is named by its path."""
_UNTOLD = ("facts",)
"""What a client that prints wants of a result, and an assistant does not."""
INSTRUCTIONS = """\
Plans how to split a neural network over accelerators, and says what a step costs. Models are names
such as llama3-8b, or ids of uploads. Times are seconds, memory is bytes per device. `search` makes
a plan of single operators; `layouts` ranks tensor, pipeline and data parallel degrees in seconds;
`recipe` reads a training script of Megatron-LM, torchtitan, DeepSpeed and others and says what is
better. A plan's id goes to `explain`, `simulate` and `compare`."""


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CompareBody(_Input):
    """Two plans."""

    plan: PlanId
    other: PlanId


class UploadBody(_Input):
    """A file for the service."""

    kind: Literal["models", "clusters", "plans"]
    name: Name = ""
    """Of the file, such as config.json; that of the path if nothing is said."""
    text: Annotated[str, Field(max_length=2**22)] | None = None
    """What is in it: a config.json, a cluster file, a plan.json."""
    path: Annotated[str, Field(max_length=4096)] | None = None
    """In its place, a file in the folder that the server was started with."""


class NothingBody(_Input):
    """No input."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the work is done, and what a client may name."""

    planner: Callable[[str | None], Planner]
    """The service, with the token of a request."""
    folder: Path | None = None
    """Files in here may be named by their path."""


@dataclass(frozen=True, slots=True)
class _Tool:
    about: str
    body: type[BaseModel]
    path: str = ""
    """Of the request that is a job; empty for what is answered at once."""
    left_out: tuple[str, ...] = ("priority",)
    """Fields of the body that the tool has not."""
    needed: tuple[str, ...] = ()
    """Fields that it must be given, although the body has a default."""

    def schema(self) -> dict[str, Any]:
        """The input as JSON Schema."""
        found = self.body.model_json_schema()
        own = {k: v for k, v in found["properties"].items() if k not in self.left_out}
        required = [*found.get("required", ()), *self.needed]
        return {**found, "properties": own, "required": required}


_TOOLS: Mapping[str, _Tool] = {
    "search": _Tool(
        "Search for the fastest plan of a model on a machine, operator by operator. The result has "
        "the step time with a proven bound, memory, notes, and the id of the plan.",
        SearchBody, "searches",
    ),
    "price": _Tool(
        "Price a conventional layout such as tp=8,pp=4,dp=8,batch=512,sp of a model: step time, "
        "tokens/s, MFU, memory.",
        SimulationBody, "simulations", ("priority", "plan", "plot"), ("model", "layout"),
    ),
    "simulate": _Tool(
        "Simulate a plan event by event: step time, where the time goes, what is hidden.",
        SimulationBody, "simulations", ("priority", "model", "layout", "plot"), ("plan",),
    ),
    "layouts": _Tool(
        "Rank the conventional parallel layouts of a model on a machine, the fastest that fit "
        "first; write one as files of a framework with `recipe` and `row`.",
        LayoutsBody, "layouts",
    ),
    "recipe": _Tool(
        "Read a training recipe (files of Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed, "
        "accelerate, MindFormers, MaxText and others; nothing in them is executed): its step, "
        "memory, warnings, the best changes, and the files of the best recipe.",
        RecipeBody, "recipes",
    ),
    "explain": _Tool(
        "Say why a plan is as it is: what costs most, what limits, the closest rivals; of an "
        "operator or tensor why it is split so; what another degree would cost; how far bandwidth, "
        "batch and memory may move.",
        ExplanationBody, "explanations",
    ),
    "compare": _Tool("Compare two plans: time, memory, what is split differently.", CompareBody),
    "upload": _Tool(
        "Give the service a model (ONNX, config.json), a cluster file or a plan.json; the id.",
        UploadBody,
    ),
    "plans": _Tool("List the plans that the service has, the newest first.", NothingBody),
}  # fmt: skip


def tool_server(door: Door) -> Server[Any]:
    """A server of the protocol; transports are the caller's."""
    limiter = anyio.CapacityLimiter(CALLS)

    async def listed(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(name) for name in _TOOLS])

    async def called(
        context: ServerRequestContext[Any, Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async with limiter:
            try:
                found = await _answer(door, context, asked)
            except (ServiceError, UserError) as error:
                return _result(str(error), is_error=True)
            except ValidationError as error:
                lines = "; ".join(
                    f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
                )
                return _result(lines[:4000], is_error=True)
        return _result(found)

    return Server(
        "planner", version=planner_version(), title="Planner of parallel training",
        instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called,
    )  # fmt: skip


def _listed(name: str) -> types.Tool:
    tool = _TOOLS[name]
    hints = types.ToolAnnotations(destructive_hint=False, open_world_hint=False)
    return types.Tool(
        name=name, description=tool.about, input_schema=tool.schema(), annotations=hints
    )


def _result(found: Mapping[str, Any] | str, *, is_error: bool = False) -> types.CallToolResult:
    text = found if isinstance(found, str) else json.dumps(found)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=is_error,
        structured_content=None if isinstance(found, str) else dict(found),
    )  # fmt: skip


async def _answer(
    door: Door, context: ServerRequestContext[Any, Any], asked: types.CallToolRequestParams
) -> Mapping[str, Any]:
    tool = _TOOLS.get(asked.name)
    if tool is None:
        raise UserError(
            f"there is no tool {asked.name[:80]!r}", "name", f"one of {', '.join(_TOOLS)}"
        )
    given = dict(asked.arguments or {})
    strange = [name for name in given if name in tool.left_out]
    missing = [name for name in tool.needed if given.get(name) is None]
    if strange or missing:
        what = f"{strange[0]} is not taken" if strange else f"{missing[0]} is missing"
        raise UserError(what, asked.name, "see the input of the tool")
    body = tool.body.model_validate(given)
    planner = door.planner(_token(context))
    if tool.path:
        return await _done(planner, tool.path, given, context)
    return await run_sync(_at_once, door, planner, body)


def _token(context: ServerRequestContext[Any, Any]) -> str | None:
    """The token of a request over HTTP, which is the client's own at the service."""
    if context.request is None:
        return None
    kind, _, token = context.request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" and token else None


async def _done(
    planner: Planner, path: str, body: Mapping[str, Any], context: ServerRequestContext[Any, Any]
) -> Mapping[str, Any]:
    """The result of a job; one that nobody waits for any longer is cancelled."""
    job = await run_sync(planner.submit, path, body)
    count = 0

    def report(event: Mapping[str, Any]) -> None:
        nonlocal count
        count += 1
        in_loop(context.session.report_progress, float(count), None, str(event["text"]))

    try:
        found = await run_sync(planner.wait, job, report, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await run_sync(planner.cancel, job)
        raise
    return {name: value for name, value in found.items() if name not in _UNTOLD}


def _at_once(door: Door, planner: Planner, body: BaseModel) -> Mapping[str, Any]:
    if isinstance(body, CompareBody):
        return planner.compared(body.plan, body.other)
    if isinstance(body, UploadBody):
        name, content = _content(door, body)
        return {"id": planner.upload(body.kind, name, content)}
    return {"plans": planner.plans()}


def _content(door: Door, body: UploadBody) -> tuple[str, bytes]:
    """Name and bytes of what is uploaded.

    Raises:
        UserError: it is neither a text nor a file that may be named.
    """
    if (body.text is None) == (body.path is None):
        raise UserError("give a text or a path", "upload", "one of both")
    if body.text is not None:
        if not body.name:
            raise UserError("what is it called?", "name", "such as config.json")
        return body.name, body.text.encode()
    if door.folder is None:
        raise UserError(
            "no folder may be read", "path", "give the text, or start planner mcp with --files DIR"
        )
    path = (door.folder / str(body.path)).resolve()
    if not path.is_relative_to(door.folder.resolve()) or not path.is_file():
        raise UserError(
            f"{str(body.path)[:200]!r} is no file in the folder of --files",
            "path",
            "name one there",
        )
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path.name} has more than {MOST_BYTES} bytes", "path", "a smaller file")
    return body.name or path.name, path.read_bytes()
