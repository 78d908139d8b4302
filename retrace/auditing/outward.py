"""Recognises calls that act outside the program: files, processes, logging services.

An audit must not repeat these. They are recognised from what a function calls, without calling
it.
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
"""Methods that write files or folders, on any object."""
_OS_FUNCTIONS = frozenset(
    (
        *("remove", "unlink", "rename", "replace", "mkdir", "makedirs", "rmdir", "removedirs"),
        *("symlink", "link", "truncate", "chmod", "chown", "utime", "putenv", "unsetenv"),
        *("system", "popen", "kill", "write", "fork", "_exit", "abort", "posix_spawn"),
    )
)
_MODULES: dict[str, frozenset[str] | None] = {
    "os": _OS_FUNCTIONS,
    "posix": _OS_FUNCTIONS,
    "nt": _OS_FUNCTIONS,
    "numpy": frozenset(
        (
            *("save", "savez", "savez_compressed", "savetxt"),
            *("seterr", "seterrcall", "set_printoptions"),
        )
    ),
    "gc": frozenset(("enable", "disable", "freeze", "set_threshold")),
    "sys": frozenset(("setrecursionlimit", "settrace", "setprofile", "setswitchinterval")),
    "pdb": frozenset(("set_trace",)),
    **dict.fromkeys(("atexit", "signal", "faulthandler")),
    **dict.fromkeys(("subprocess", "shutil", "socket", "smtplib", "sqlite3", "ftplib")),
    **dict.fromkeys(("urllib", "http", "requests", "httpx", "aiohttp", "multiprocessing")),
    **dict.fromkeys(("wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim")),
    **dict.fromkeys(("tensorboardX", "tensorboard", "clu", "loguru", "tqdm")),
}
"""Functions and classes by package; None means all of it."""
_ASKING = frozenset(("breakpoint", "input"))
"""Builtin functions that wait for the user."""
_WRITE_MODE = re.compile("[rbt]*[wax+][rwaxbt+]*")
_CALLABLES = (FunctionType, BuiltinFunctionType, MethodType, type)


def acts_by_name(method: str) -> bool:
    """Whether a method of this name acts outside the program, on any object."""
    return method in _METHODS


def acts(callee: Any, name: str, texts: list[str], *, unclear: bool = False) -> bool:
    """Whether a call acts outside the program.

    Args:
        callee: the called object; None for a builtin function.
        name: the name it is called by.
        texts: its arguments that are string literals.
        unclear: whether arguments after the first are something else.
    """
    if name == "open":
        return unclear or any(map(_WRITE_MODE.fullmatch, texts))
    if callee is None and name in _ASKING:
        return True
    if callee is None or not isinstance(callee, _CALLABLES):
        return False
    if type(callee) is MethodType:
        module: Any = kind_of(callee.__self__).__module__
    else:
        module = getattr(callee, "__module__", None)
    package = str(module).partition(".")[0]
    if package == "jax" and getattr(callee, "__qualname__", None) == "Config.update":
        return True
    if package not in _MODULES:
        return False
    names = _MODULES[package]
    return names is None or getattr(callee, "__name__", None) in names
