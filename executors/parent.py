"""A process that another one started."""

from __future__ import annotations

import os
import threading
import time


def leaves_with_parent() -> None:
    """End this process when the one that started it ends, however it does."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
