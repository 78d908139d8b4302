"""What acts outside of the program: files, other processes, services that keep a log.

Told by what a function calls, not by calling it. Done once more for an audit, it would leave
something behind.
"""

from __future__ import annotations

import re
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from retrace.capture.objects import kind_of

_METHODS = frozenset(
    (
        *("write_text", "write_bytes", "touch", "mkdir", "rmdir", "unlink", "symlink_to"),
        *("hardlink_to", "savefig"),
    )
)
"""Methods that write a file or a folder, on whatever object they are called."""
_OF_FILES = frozenset(
    (
        *("remove", "unlink", "rename", "replace", "mkdir", "makedirs", "rmdir", "removedirs"),
        *("symlink", "link", "truncate", "chmod", "chown", "utime", "putenv", "unsetenv"),
        *("system", "popen", "kill", "write", "fork", "_exit", "abort", "posix_spawn"),
    )
)
_MODULES: dict[str, frozenset[str] | None] = {
    "os": _OF_FILES,
    "posix": _OF_FILES,
    "nt": _OF_FILES,
    "numpy": frozenset(("save", "savez", "savez_compressed", "savetxt")),
    **dict.fromkeys(("subprocess", "shutil", "socket", "smtplib", "sqlite3", "ftplib")),
    **dict.fromkeys(("urllib", "http", "requests", "httpx", "aiohttp", "multiprocessing")),
    **dict.fromkeys(("wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim")),
    **dict.fromkeys(("tensorboardX", "tensorboard", "clu", "loguru", "tqdm")),
}
"""Functions and classes by their packages; None for all of a package."""
_OPENING = re.compile("[rbt]*[wax+][rwaxbt+]*")
_CALLED = (FunctionType, BuiltinFunctionType, MethodType, type)


def acts_by_name(method: str) -> bool:
    """Whether a method of this name acts outside, whatever it is one of."""
    return method in _METHODS


def acts(callee: Any, name: str, texts: list[str]) -> bool:
    """Whether a call acts outside.

    Args:
        callee: what is called; None for a builtin function.
        name: by which it is called.
        texts: those among its arguments that stand in the code.
    """
    if name == "open":
        return any(map(_OPENING.fullmatch, texts))
    if callee is None or not isinstance(callee, _CALLED):
        return False
    if type(callee) is MethodType:
        module: Any = kind_of(callee.__self__).__module__
    else:
        module = getattr(callee, "__module__", None)
    whole = str(module)
    package = whole.partition(".")[0]
    if package not in _MODULES:
        return False
    names = _MODULES[package]
    return names is None or getattr(callee, "__name__", None) in names
