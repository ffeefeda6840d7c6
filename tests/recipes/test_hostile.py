"""Hostile files: nothing is executed, memory is bounded, there is one clear message."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.recipes.reading import MOST_BYTES, read_recipe, recipe_of_texts

pytestmark = pytest.mark.fast


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join(lines)


HOSTILE = {
    "bomb.yaml": (_bomb(), "references counted"),
    "deep.yaml": ("[" * 1000, "no YAML"),
    "deep.json": ("[" * 100_000, "no JSON"),
    "tag.yaml": ("a: !!python/object/apply:os.system [touch hacked]\n", "no framework"),
    "list.yaml": ("- 1\n- 2\n", "holds no settings"),
    "bad.toml": ("a = [1,\n", "no TOML"),
    "code.py": ("def f(:\n", "no Python"),
    "deep.py": ("x = " + "-" * 200_000 + "1\n", "no Python|no framework"),
    "bomb.sh": (
        "A=aaaaaaaaaaaaaaaa\n" + "A=$A$A$A$A\n" * 40 + "torchrun x.py --tp $A\n" * 60,
        "too much text|no framework",
    ),
    "loop.sh": ("A=$A$B\nB=$A\ntorchrun x.py --seq $A\n", "no framework"),
    "calls.sh": ("f() {\n g\n g\n}\ng() {\n f\n f\n}\nf\n", "without end"),
    "nested.sh": ("X=" + "$((" * 5_000 + "\n", "no framework"),
    "braces.sh": ("X=" + "${a:-" * 5_000 + "\n", "no framework"),
    "large.sh": ("A=1 # x\n" * 40_000, "more than 262,144 characters"),
    "power.sh": ("torchrun x.py --seq $((9**9**9**9))\n", "no framework"),
    "refers.yaml": ("a: ${b}\nb: ${a}\nc: ${multiply:${a},${b}}\n", "no framework"),
    "open.sh": ("torchrun \"x.py --tp '$((1", "no framework"),
    "empty.sh": ("", "no framework"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_has_one_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, message = HOSTILE[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=message):
        read_recipe([name])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_python_configuration_is_not_executed(tmp_path: Path) -> None:
    """Reading a file of settings with code leaves no trace of the code."""
    mark = tmp_path / "executed"
    text = f"""
open({str(mark)!r}, "w").close()
class Meta(type):
    def __new__(cls, *args): open({str(mark)!r}, "w").close(); return type(*args)
def run1(x=open({str(mark)!r}, "w")):
    cfg = make1()
    cfg.model.tensor_model_parallel_size = 4
    cfg.train.global_batch_size = __import__("os").system("touch {mark}")
    return cfg
"""
    found = recipe_of_texts({"r.py": text})
    assert found.values["tp"] == 4
    assert not mark.exists()


def test_a_script_is_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    text = f"X=$(touch {mark})\n`touch {mark}`\ntorchrun p.py --num-layers 4 --seq-length $X 8\n"
    assert recipe_of_texts({"x.sh": text}).values["layers"] == 4
    assert not mark.exists()


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ModelError, match="larger than"):
        read_recipe([str(path)])
    path.write_bytes(b"a: \0\n")
    with pytest.raises(ModelError, match="no text"):
        read_recipe([str(path)])
    with pytest.raises(ModelError, match="is a folder"):
        read_recipe([str(tmp_path)])
    with pytest.raises(ModelError, match="no framework 'x'"):
        recipe_of_texts({"a.yaml": "b: 1\n"}, asked="x")
