"""A process that another one started."""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path


def process_arguments(description: str | None) -> argparse.Namespace:
    """Folder, rank and size of this process, which ends when the one that started it does."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    chosen = parser.parse_args()
    leaves_with_parent()
    return chosen


def leaves_with_parent() -> None:
    """End this process when the one that started it ends, however it does."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
