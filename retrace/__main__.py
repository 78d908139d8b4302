"""The `retrace` command, and `python -m retrace`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import retrace

OTHERS = """retrace: another package has replaced files of retrace in {folder}.
`retrace-sdk`, for example, installs into a folder of the same name. Uninstall it, then run
`pip install --force-reinstall --no-deps retrace-jax`.
"""


def main() -> NoReturn:
    """Run this process's command line and exit."""
    # A command creates many objects, no cycles, and ends: the collector would only scan them
    # again and again. `retrace run` turns it on again.
    gc.disable()
    if not hasattr(retrace, "_HOMES"):
        sys.stderr.write(OTHERS.format(folder=next(iter(retrace.__path__))))
        sys.exit(2)
    from retrace.command.cli import main

    main()


if __name__ == "__main__":
    main()
