"""Run by MindSpore's Python: export networks as MindIR and as ONNX, where MindSpore can.

python -m tests.mindspore_package.export_networks FOLDER [NAME...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
from mindspore.train import serialization

from tests.mindspore_package.tutorial_networks import NETWORKS


def main(folder: Path, names: list[str]) -> None:
    """Write `<name>_graph.mindir` and `<name>.onnx`; of an export that fails the reason."""
    serialization.TOTAL_SAVE = 0  # weights beside the graph, as for networks of more than 1 GB
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    for name in names or NETWORKS:
        example = NETWORKS[name]
        inputs = [ms.Tensor(each) for each in example.inputs]
        for form in ("MINDIR", "ONNX"):
            network = example.make()
            network.set_train(form == "MINDIR")
            try:
                ms.export(network, *inputs, file_name=str(folder / name), file_format=form)
            except Exception as error:  # noqa: BLE001  whatever MindSpore raises
                why = str(error).strip().splitlines()
                (folder / f"{name}.{form}.txt").write_text(why[0] if why else repr(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
