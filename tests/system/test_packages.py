"""The packages as users make and install them: sdist, wheel, `pip install` from another folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "textbook" / "dense_attention.onnx"
LIMIT_S = 600


def run(call: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(each) for each in call], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def wheel_of(source: Path, folder: Path) -> Path:
    """The wheel that pip makes, its name alone in a folder."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run((*pip, "--wheel-dir", folder, source), folder.parent)
    (found,) = folder.glob("*.whl")
    return found


def files_in(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mebibytes(folder: Path) -> float:
    """What a folder takes on the disk."""
    return sum(file.stat().st_blocks for file in folder.rglob("*")) * 512 / 2**20


def test_the_sdist_makes_the_wheel_that_the_checkout_makes(tmp_path: Path) -> None:
    hatch = (sys.executable, "-m", "hatchling", "build", "--target", "sdist")
    run((*hatch, "--directory", tmp_path), ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {Path(*Path(member.name).parts[1:]).as_posix() for member in archive}
    assert {"README.md", "LICENSE", "pyproject.toml", "requirements.lock"} <= names
    checkout = files_in(wheel_of(ROOT, tmp_path / "checkout"))
    assert files_in(wheel_of(sdist, tmp_path / "sdist")) == checkout
    assert {"planner/__main__.py", "data/clusters/dgx-a100.yaml"} <= set(checkout)
    assert not {name for name in checkout if name.startswith("tests/")}


def test_an_installed_planner_plans_in_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its own requirements alone: nothing that a developer has beside them."""
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    install = (binaries / "python", "-m", "pip", "install", "--quiet")
    run((*install, ROOT), tmp_path)
    (packages,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    with capsys.disabled():
        sys.stdout.write(f"\ninstalled: {mebibytes(packages):.0f} MiB\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(MODEL, elsewhere / "net.onnx")
    said = run((binaries / "planner", "--version"), elsewhere).stdout
    assert run((binaries / "python", "-m", "planner", "--version"), elsewhere).stdout == said
    search = ("search", "net.onnx", "--devices", "8", "-o", "plan")
    assert "one training step in" in run((binaries / "planner", *search), elsewhere).stdout
    assert run((binaries / "planner", "show", "plan/plan.json"), elsewhere).stdout
    draw = (binaries / "planner", "topology", "draw", "dgx-a100", "-o", "a.svg")
    refused = subprocess.run(
        [str(each) for each in draw], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "pip install 'parallel-planner[plot]'" in refused.stderr
