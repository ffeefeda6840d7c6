"""The page that is shipped: built from the sources that are there, and from nowhere else."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from exporters.formats import FORMATS
from planner.requests.options.option import declared
from planner.requests.options.searches import SearchOptions
from service.views.graph import Level
from service.views.routes import PLAIN_VIEWS

pytestmark = pytest.mark.fast

WEB = Path(str(resources.files("service"))) / "web"


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_script(built_page: Path) -> None:
    page = (built_page / "index.html").read_text()
    for source in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert (built_page / source).is_file()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert " style=" not in page
    for script in built_page.glob("*.js"):
        text = script.read_text()
        assert "eval(" not in text.replace(".eval(", "")
        assert "new Function(" not in text


def test_every_library_in_the_bundle_comes_with_its_licence(built_page: Path) -> None:
    text = (built_page / "LICENCES.txt").read_text()
    for name in ("preact", "echarts", "zrender"):
        found = rf"^{name} [\d.]+ \((MIT|Apache-2.0|BSD-3-Clause|0BSD)\)$"
        assert re.search(found, text, re.MULTILINE)


def test_the_forms_take_their_options_from_what_is_declared() -> None:
    """They name options that there are, and list neither their choices nor their defaults."""
    text = (WEB / "src" / "search.tsx").read_text()
    known = {each.name: each for each in declared(SearchOptions)}
    for group in ("MAIN", "MORE"):
        found = re.search(rf"const {group} = \[([^]]+)\]", text)
        assert found is not None
        assert set(re.findall(r'"(\w+)"', found[1])) <= set(known)
    assert '"/openapi.json"' in (WEB / "src" / "options.ts").read_text()
    for choice in (*known["optimizer"].option.choices, *known["solver"].option.choices):
        assert f'"{choice}"' not in text


def test_no_view_puts_markup_into_the_page() -> None:
    for source in (WEB / "src").glob("*.ts*"):
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write", source.read_text())


def test_the_page_offers_formats_and_views_that_there_are() -> None:
    exports = (WEB / "src" / "exports.tsx").read_text()
    offered = set(re.findall(r'^  \["([a-z-]+)", ', exports, re.MULTILINE))
    assert offered - {"plan"} == set(FORMATS)
    views = "".join(p.read_text() for p in (WEB / "src").glob("*.tsx"))
    known = {*PLAIN_VIEWS, "cluster", "graph", "whatif", "explanation"}
    asked = {n.partition("/")[0] for n in re.findall(r'view\([\w.]+, ["`]([a-z/]+)', views)}
    assert asked - {"compare", "why", "operator"} <= known
    levels = set(
        re.findall(r'\["(\w+)", t\("(?:blocks folded|all operators|all parts)"\)\]', views)
    )
    assert levels == {level.value for level in Level}


def test_every_text_of_the_page_has_a_chinese_one() -> None:
    known = set(re.findall(r'"((?:[^"\\]|\\.)*)": "', (WEB / "src" / "zh.ts").read_text()))
    literal = r'"((?:[^"\\]|\\.)*)"'
    plain, chosen = rf"\bt\({literal}\)", rf"\bt\([^()]*\? {literal} : {literal}\)"
    for source in (WEB / "src").glob("*.ts*"):
        code = source.read_text()
        for text in (*re.findall(plain, code), *sum(re.findall(chosen, code), ())):
            assert text in known, f"{source.name}: {text}"
