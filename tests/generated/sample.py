"""All families; importing them registers their programs."""

from __future__ import annotations

from tests.generated import arrays, objects, sweeps, values
from tests.generated.case import drawn

FAMILIES = (arrays, objects, sweeps, values)
__all__ = ["FAMILIES", "drawn"]
