"""Runs first in the interpreter of a program under `retrace run`, and in those of its children.

Its folder comes first in PYTHONPATH. It removes itself from there and from the loaded modules,
then runs the `sitecustomize` that it hides.
"""

# ruff: noqa: INP001, ANN001, ANN002, ANN202 - in no package; annotations would load more
# pyright: basic, reportArgumentType=false, reportOptionalMemberAccess=false

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder, spec_from_file_location

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


def _load(name, *parts):
    """Load one of our modules without its package, which would load much more."""
    spec = spec_from_file_location(name, os.path.join(_PACKAGE, *parts))
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _begin(settings):
    before = set(sys.modules)
    try:
        apart = _load("retrace.apart", "apart.py").Apart(sys.path)
        _load("retrace.failure", "failure.py")
        _load("retrace.command.children", "command", "children.py")
        within = _load("retrace.command.within", "command", "within.py")
    finally:
        mine = {name: sys.modules.pop(name) for name in [*sys.modules] if name not in before}
    for module in mine.values():
        apart.keep(module)
    if settings is not None:
        within.begin(settings, apart)
    elif os.environ.get("RETRACE") == "1":
        within.begin_child(apart)


sys.path[:] = [path for path in sys.path if path != _HERE]
sys.path_importer_cache.pop(_HERE, None)
try:
    _begin(os.environ.pop("RETRACE_LAUNCH", None))
except Exception as error:  # noqa: BLE001 - the program continues without recording
    sys.stderr.write(f"retrace: this process is not recorded: {error}\n")

_hidden = PathFinder.find_spec("sitecustomize", sys.path)
if _hidden is None or _hidden.loader is None:
    # The error Python itself raises, which `site` expects.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
sys.modules[__name__] = _module = module_from_spec(_hidden)
_hidden.loader.exec_module(_module)
