"""Redacts JAX's settings and the environment: hides what may reveal something of the program."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retrace.model import JSON, Value
from retrace.store.equations import Hash

_WORDS = re.compile(
    "default|ignore|high|highest|bfloat16|bfloat16_3x|float32|float64|tensorfloat32|standard|"
    "strict|allow|warn|raise|log|none|threefry2x32|rbg|unsafe_rbg"
)
"""Values that JAX defines for its own settings."""
_SIMPLE = re.compile(
    rf"|(?i:[-+]?\d{{1,9}}(?:\.\d{{1,9}})?|true|false|on|off|cpu|gpu|tpu|cuda|rocm|"
    rf"{_WORDS.pattern})"
)
"""Values of an environment variable, flag or setting that reveal nothing."""
_FLAG = re.compile(r"(?:<redacted [0-9a-f]+>|\S)+")
_DEVICE_SETTINGS = frozenset(("mesh", "jax_default_device"))
_PLAIN = frozenset(("NoneType", "bool", "float", "int"))


class Settings:
    """Hides the values of environment variables, flags and settings."""

    def __init__(self, hashed: Hash) -> None:
        """`hashed` takes a length in bytes and strings, and returns what replaces them."""
        self._hash = hashed

    def of_jax(self, settings: Mapping[str, JSON]) -> dict[str, JSON]:
        """Redact JAX's settings: string values other than the known ones."""
        return {
            name: self._redacted(name, value) if isinstance(value, str) else value
            for name, value in settings.items()
        }

    def flags(self, name: str, text: str) -> str:
        """Redact an environment variable: `--xla_dump_to=<redacted 1f2e3d4c> --xla_aot=true`."""
        if "--" not in text:
            return self._redacted(name, text)
        parts: list[str] = []
        for part in _FLAG.findall(text):
            flag, mark, value = part.partition("=")
            if not flag.startswith("--"):
                parts.append(self._redacted(name, part))
            else:
                parts.append(
                    flag + mark + (self._redacted(f"{name} {flag}", value) if mark else "")
                )
        return " ".join(parts)

    def _redacted(self, name: str, text: str) -> str:
        if text.startswith("<redacted ") or _SIMPLE.fullmatch(text):
            return text
        return f"<redacted {self._hash(4, 'flag', name, text)}>"


def is_of_jax(name: str, value: Value) -> bool:
    """Whether a setting can only have values that JAX defines."""
    if name.startswith("user_context"):
        return False
    if value.type in _PLAIN or name in _DEVICE_SETTINGS:
        return True
    return name.startswith("jax_") and _WORDS.fullmatch(value.text.strip("'")) is not None
