"""The `retrace` command, and `python -m retrace`."""

from __future__ import annotations

import gc
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    # A command makes many objects, no rings of them, and ends: the collector would look
    # through all of them a dozen times. `retrace run` switches it on again.
    gc.disable()
    from retrace.command.cli import main

    main()


if __name__ == "__main__":
    main()
