"""JAX's settings and the environment, without what may say something of the program."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retrace.model import JSON, Value
from retrace.store.equations import Hash

_WORDS = re.compile(
    "default|ignore|high|highest|bfloat16|bfloat16_3x|float32|float64|tensorfloat32|standard|"
    "strict|allow|warn|raise|log|none|threefry2x32|rbg|unsafe_rbg"
)
"""What JAX's own settings may be set to."""
_SIMPLE = re.compile(
    rf"|(?i:[-+]?\d{{1,9}}(?:\.\d{{1,9}})?|true|false|on|off|cpu|gpu|tpu|cuda|rocm|"
    rf"{_WORDS.pattern})"
)
"""What an environment variable, a flag or a setting may be set to without saying anything."""
_FLAG = re.compile(r"(?:<redacted [0-9a-f]+>|\S)+")
_PLACES = frozenset(("mesh", "jax_default_device"))
_PLAIN = frozenset(("NoneType", "bool", "float", "int"))


class Settings:
    """Hides what an environment variable, a flag or a setting may hold."""

    def __init__(self, hashed: Hash) -> None:
        """`hashed` tells what stands for a text: from its length in bytes, and parts."""
        self._hash = hashed

    def of_jax(self, settings: Mapping[str, JSON]) -> dict[str, JSON]:
        """All of JAX's settings, without those that may hold anything."""
        return {
            name: self._flag(name, value) if isinstance(value, str) else value
            for name, value in settings.items()
        }

    def flags(self, name: str, text: str) -> str:
        """An environment variable: `--xla_dump_to=<redacted 1f2e3d4c> --xla_cpu_aot=true`."""
        if "--" not in text:
            return self._flag(name, text)
        told: list[str] = []
        for part in _FLAG.findall(text):
            flag, mark, value = part.partition("=")
            if not flag.startswith("--"):
                told.append(self._flag(name, part))
            else:
                told.append(flag + mark + (self._flag(f"{name} {flag}", value) if mark else ""))
        return " ".join(told)

    def _flag(self, name: str, text: str) -> str:
        if text.startswith("<redacted ") or _SIMPLE.fullmatch(text):
            return text
        return f"<redacted {self._hash(4, 'flag', name, text)}>"


def is_of_jax(name: str, value: Value) -> bool:
    """Whether a setting can hold no more than what JAX lets it be set to."""
    if name.startswith("user_context"):
        return False
    if value.type in _PLAIN or name in _PLACES:
        return True
    return name.startswith("jax_") and _WORDS.fullmatch(value.text.strip("'")) is not None
