"""Run by the interpreter of a child of `retrace run --children`, before anything of the child's.

Its folder stands first in PYTHONPATH. It leaves no trace there, and then runs what it hides.
"""

# ruff: noqa: INP001 - a folder for the path of modules

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))

sys.path[:] = [path for path in sys.path if path != _HERE]
sys.path.append(_ROOT)  # an interpreter of another environment may not have retrace
try:
    import_module("retrace")  # which records: the environment says so
except Exception as error:  # noqa: BLE001 - the child goes on as it would without us
    sys.stderr.write(f"retrace: a child process is not recorded: {error}\n")
sys.path.reverse()
sys.path.remove(_ROOT)
sys.path.reverse()

_hidden = PathFinder.find_spec("sitecustomize", sys.path)
if _hidden is not None and _hidden.loader is not None:
    sys.modules[__name__] = _module = module_from_spec(_hidden)
    _hidden.loader.exec_module(_module)
