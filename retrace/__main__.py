"""The `retrace` command, and `python -m retrace`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import retrace

OTHERS = """retrace: another package has replaced files of retrace in {folder}.
`retrace-sdk`, for one, installs into a folder of the same name. Uninstall it, then run
`pip install --force-reinstall --no-deps retrace-jax`.
"""


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    # A command makes many objects, no rings of them, and ends: the collector would look
    # through all of them a dozen times. `retrace run` switches it on again.
    gc.disable()
    if not hasattr(retrace, "_HOMES"):
        sys.stderr.write(OTHERS.format(folder=next(iter(retrace.__path__))))
        sys.exit(2)
    from retrace.command.cli import main

    main()


if __name__ == "__main__":
    main()
