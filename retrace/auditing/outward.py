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
        *("hardlink_to", "savefig", "setLevel", "addHandler", "removeHandler"),
    )
)
"""Methods that write files or folders, or set up loggers, on any object."""
OS_FUNCTIONS = frozenset(
    (
        *("remove", "unlink", "rename", "replace", "mkdir", "makedirs", "rmdir", "removedirs"),
        *("symlink", "link", "truncate", "chmod", "chown", "utime", "putenv", "unsetenv"),
        *("system", "popen", "kill", "killpg", "write", "fork", "_exit", "abort", "chdir"),
        *("fchdir", "umask", "nice", "mkfifo", "mknod", "posix_spawn", "posix_spawnp"),
        *("execv", "execve", "forkpty", "setxattr", "removexattr", "sendfile", "ftruncate"),
    )
)
_MODULES: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(("os", "posix", "nt"), OS_FUNCTIONS),
    "numpy": frozenset(
        (
            *("save", "savez", "savez_compressed", "savetxt"),
            *("seterr", "seterrcall", "set_printoptions"),
        )
    ),
    "builtins": frozenset(("exec", "eval")),
    "importlib": frozenset(("reload",)),
    "gc": frozenset(("enable", "disable", "freeze", "set_threshold")),
    "sys": frozenset(
        (
            *("setrecursionlimit", "settrace", "setprofile", "setswitchinterval"),
            *("set_int_max_str_digits", "setdlopenflags", "set_asyncgen_hooks"),
        )
    ),
    "decimal": frozenset(("setcontext",)),
    "locale": frozenset(("setlocale",)),
    "logging": frozenset(
        (
            *("disable", "setLevel", "addHandler", "removeHandler", "addFilter"),
            *("removeFilter", "basicConfig", "captureWarnings", "addLevelName"),
        )
    ),
    "io": frozenset(("FileIO",)),
    "pdb": frozenset(("set_trace",)),
    **dict.fromkeys(("atexit", "signal", "faulthandler", "tempfile", "dbm", "shelve", "runpy")),
    **dict.fromkeys(("subprocess", "shutil", "socket", "smtplib", "sqlite3", "ftplib")),
    **dict.fromkeys(("urllib", "http", "requests", "httpx", "aiohttp", "multiprocessing")),
    **dict.fromkeys(("wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim")),
    **dict.fromkeys(("tensorboardX", "tensorboard", "clu", "loguru", "tqdm")),
}
"""Functions and classes by package; None means all of it. What a text does is not known."""
_OF_JAX = ("Config.update", "ensure_compile_time_eval")
"""Functions of JAX, which is not listed above: what is computed at a trace is compiled first."""
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
    if callee is None and name in _ASKING:
        return True
    is_open = name == "open" and (unclear or any(map(_WRITE_MODE.fullmatch, texts)))
    if is_open or callee is None or not isinstance(callee, _CALLABLES):
        return is_open
    if type(callee) is MethodType:
        module: Any = kind_of(callee.__self__).__module__
    else:
        module = getattr(callee, "__module__", None)
    package = str(module).partition(".")[0].removeprefix("_")
    if package == "jax":
        is_known = getattr(callee, "__qualname__", None) in _OF_JAX
        return is_known or str(module).endswith((".profiler", ".distributed"))
    if package not in _MODULES:
        return False
    names = _MODULES[package]
    return names is None or getattr(callee, "__name__", None) in names
