"""Copies exported programs here without their weights: `python copy_reference.py FOLDER`."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent / "reference"
ARCHIVES = ("mlp_dyn", "squeezenet1_1", "tiny_llama")
GRAPHS = ("gpt_small_joint_train", "gpt_small_joint_ep")
DATE = (2026, 1, 1, 0, 0, 0)


def copy(folder: Path) -> None:
    HERE.mkdir(exist_ok=True)
    for name in ARCHIVES:
        kept = ("/models/", "_config.json", "/archive_format", "/data/constants/")
        with (
            zipfile.ZipFile(folder / f"{name}.pt2") as source,
            zipfile.ZipFile(HERE / f"{name}.pt2", "w") as target,
        ):
            for entry in sorted(n for n in source.namelist() if any(k in n for k in kept)):
                info = zipfile.ZipInfo(entry, DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                target.writestr(info, source.read(entry))
    for name in GRAPHS:
        data = (folder / f"{name}.fx.json").read_bytes()
        (HERE / f"{name}.fx.json.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    copy(Path(sys.argv[1]))
