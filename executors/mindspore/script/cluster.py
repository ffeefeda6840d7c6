"""Let MindSpore for CPUs run its parallel passes for devices that are not there.

It refuses automatic parallelism on a CPU, although the passes need no accelerator. `imagine`
registers the target's name, switches the check of the number of devices off, and answers what
shape inference asks of groups. Compile with phase `export`: that stops after the front end.

Private symbols of exactly one version, 2.10.0, are used; another one raises AttributeError.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import mindspore
from mindspore._c_expression import MSContext, ms_ctx_param
from mindspore.communication import _comm_helper, management

_REGISTER = "_ZN9mindspore9MsContext16RegisterInitFuncERKSsPFvPS0_E"
_HELD: list[object] = []
"""What C++ still points at."""


def imagine(devices: int, rank: int = 0, target: str = "Ascend") -> None:
    """Make this process believe that it is one of so many devices.

    Call it once, before `set_auto_parallel_context`.
    """
    library = Path(mindspore.__file__).parent / "lib" / "libmindspore_core.so"
    register = getattr(ctypes.CDLL(str(library)), _REGISTER)
    register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    # The callback is looked up with dladdr, so it must live in a library; getpid does no harm.
    register(_copied_string(target), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p))
    MSContext.get_instance().set_param(ms_ctx_param.device_target, target)
    replaced: dict[str, object] = {
        "_HCCL_TEST_AVAILABLE": True,  # else it counts devices, and finds 2,048
        "_hccl_test": lambda: False,
    }
    for name, value in replaced.items():
        setattr(_comm_helper, name, value)

    def group_size(group: str | None = None, *_: object, **__: object) -> int:
        size = str(group).split("-", maxsplit=1)[0]  # a group inside is named "<size>-<hash>"
        return int(size) if size.isdigit() else devices

    def group_rank(group: str | None = None, *_: object, **__: object) -> int:
        return rank % group_size(group)

    for module in (_comm_helper, management):
        for name, answer in (("_get_size_helper", group_size), ("_get_rank_helper", group_rank)):
            setattr(module, name, answer)


def _copied_string(text: str) -> ctypes.c_void_p:
    """A copy-on-write std::string: the package is built with libstdc++'s old interface."""
    raw = text.encode()
    head = struct.pack("<qqi4x", len(raw), len(raw), 1_000_000)
    buffer = ctypes.create_string_buffer(head + raw + b"\0")
    pointer = ctypes.c_void_p(ctypes.addressof(buffer) + 24)
    _HELD.extend((buffer, pointer))
    return ctypes.cast(ctypes.byref(pointer), ctypes.c_void_p)
