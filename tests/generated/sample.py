"""All families; importing them registers their programs."""

from __future__ import annotations

from tests.generated import arrays, objects, values
from tests.generated.case import drawn

FAMILIES = (arrays, objects, values)
__all__ = ["FAMILIES", "drawn"]
