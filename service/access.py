"""Who asks, and how much: names of the server, tokens, rates, sizes and times of requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.settings import LOCAL_OWNER, Limits, Settings
from service.visible import CURRENT_OWNER

UPLOADS = ("/v1/models", "/v1/clusters", "/v1/plans")
MOST_KNOWN = 10_000
"""Askers whose rates are kept; beyond them all begin anew."""
SEND_S = 60.0
"""A client that takes nothing for so long is left."""
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
_SAFE: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class RefusedError(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


class Rate:
    """Requests of each owner: as many as a minute allows may come at once."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, owner: str, now_s: float) -> float:
        """Seconds until the next request is allowed; 0 if this one is."""
        if len(self._left) >= MOST_KNOWN:
            self._left.clear()
        left = self._now(owner, now_s)
        self._left[owner] = (left - (left >= 1), now_s)
        return self._wait_s(left)

    def look(self, owner: str, now_s: float) -> float:
        """The same without a request."""
        return self._wait_s(self._now(owner, now_s))

    def _now(self, owner: str, now_s: float) -> float:
        left, since = self._left.get(owner, (self._most, now_s))
        return min(self._most, left + (now_s - since) * self._most / 60)

    def _wait_s(self, left: float) -> float:
        return 0.0 if left >= 1 else (1 - left) * 60 / self._most


class Access:
    """The outermost layer: nothing behind it sees a request that it refuses."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._rate = Rate(settings.limits.requests_per_minute)
        self._wrong = Rate(settings.limits.wrong_tokens_per_minute)
        self._known: dict[str, set[str]] = {}
        """Digests of tokens that came from an address and were good."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        limits = self._settings.limits
        body = _Body(receive, _most_bytes(scope, limits), limits.body_s)
        reply = _Reply(send, body)
        try:
            self._check_names(headers)
            if str(scope["path"]).startswith("/v1/"):
                self._admit(self._owner(headers, (scope.get("client") or ("",))[0]))
            body.check_announced(headers)
            await self._app(scope, body.receive, reply.send)
        except RefusedError as error:
            await reply.refuse(error)

    def _admit(self, owner: str) -> None:
        CURRENT_OWNER.set(owner)
        wait_s = self._rate.take(owner, time.monotonic())
        if wait_s:
            after = {"retry-after": str(int(wait_s) + 1)}
            raise RefusedError(429, "too many requests", after)

    def _check_names(self, headers: Mapping[str, str]) -> None:
        """A page of somebody else, or a name of somebody else for this server, is not served."""
        host = headers.get("host", "")
        if self._settings.hosts and _without_port(host) not in self._settings.hosts:
            raise RefusedError(421, f"this server is not {host[:100]!r}")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise RefusedError(403, f"pages of {origin[:100]!r} may not ask")

    def _owner(self, headers: Mapping[str, str], address: str) -> str:
        """The owner of a token. Who sends many wrong ones is heard no more for a while, unless by
        a token that was good before.
        """
        tokens, now_s = self._settings.tokens, time.monotonic()
        if not tokens:
            return LOCAL_OWNER
        scheme, _, token = headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(token.strip().encode("latin-1")).hexdigest()
        is_known = digest in self._known.get(address, ())
        wait_s = 0.0 if is_known or not token else self._wrong.look(address, now_s)
        if wait_s:
            after = {"retry-after": str(int(wait_s) + 1)}
            raise RefusedError(429, "too many wrong tokens from this address", after)
        if scheme.lower() != "bearer" or digest not in tokens:
            if token:
                self._wrong.take(address, now_s)
            ask = {"www-authenticate": "Bearer"}
            raise RefusedError(401, "a valid bearer token is needed", ask)
        self._known.setdefault(address, set()).add(digest)
        return tokens[digest]


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name.lower() if name and port.isdecimal() else host.lower()


def _most_bytes(scope: Scope, limits: Limits) -> int:
    is_upload = scope["path"] in UPLOADS and scope["method"] == "POST"
    return limits.upload_bytes if is_upload else limits.body_bytes


class _Body:
    """The body of a request, within its size and time."""

    def __init__(self, receive: Receive, most_bytes: int, most_s: float) -> None:
        self._receive = receive
        self._most_bytes = most_bytes
        self._until_s = time.monotonic() + most_s
        self.refusal: RefusedError | None = None
        """Why it was read no further; the application may have called it something else."""
        self._bytes = 0
        self._is_whole = False

    def check_announced(self, headers: Mapping[str, str]) -> None:
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > self._most_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._until_s - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self.refusal = RefusedError(408, "the request took too long to arrive")
            raise self.refusal from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._bytes > self._most_bytes:
                self.refusal = self._too_large()
                raise self.refusal
        return message

    def _too_large(self) -> RefusedError:
        return RefusedError(413, f"a body of more than {self._most_bytes} bytes")


class _Reply:
    """What is sent, with headers that keep a browser from harm, to a client that listens."""

    def __init__(self, send: Send, body: _Body) -> None:
        self._send = send
        self._body = body
        self._begun = False
        self._refused = False

    async def send(self, message: Message) -> None:
        """Pass a message on; a request that was not read to its end is answered by its refusal."""
        if self._body.refusal is not None and not self._begun:
            await self.refuse(self._body.refusal)
        if not self._refused:
            await self._pass_on(message)

    async def refuse(self, error: RefusedError) -> None:
        """Answer in place of the application, if it has not begun to."""
        if self._begun:
            return
        self._refused = True
        body = json.dumps({"status": "error", "message": str(error)}).encode()
        fixed = {"content-type": "application/json", "content-length": str(len(body)),
                 "connection": "close"}  # fmt: skip
        headers = [(k.encode(), v.encode()) for k, v in {**fixed, **error.headers}.items()]
        start = {"type": "http.response.start", "status": error.status, "headers": headers}
        await self._pass_on(start)
        await self._pass_on({"type": "http.response.body", "body": body})

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            given = {key.lower() for key, _ in message.get("headers", [])}
            extra = [(k.encode(), v.encode()) for k, v in _SAFE.items() if k.encode() not in given]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        async with asyncio.timeout(SEND_S):
            await self._send(message)
