"""A program compiled for a GPU or a TPU that is only described.

python accelerated.py gpu            compiles it
python accelerated.py gpu FOLDER     also writes what XLA's profiler and XLA say about that
"""

from __future__ import annotations

import lzma
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from described import placed  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

ROUNDS = 3


def step(x: Any) -> Any:
    y = jnp.sort(x, axis=0)  # sorts
    z = jax.nn.softmax(jnp.sin(y) * x)  # normalizes
    for number in range(ROUNDS):
        z = jnp.tanh(z @ z + number)  # multiplies
    whole = z[:16] * 2  # takes a piece
    z = jax.lax.fori_loop(0, 3, lambda i, c: jnp.cos(c) * c.T, z)  # loops
    return z.sum(0), whole, jnp.argmax(z, 1)  # reduces


def main(platform: str, folder: str = "") -> None:
    (x,) = placed(platform, np.ones((64, 64), np.float32))
    lowered = jax.jit(step).lower(x)
    if not folder:
        lowered.compile()
        return
    with tempfile.TemporaryDirectory() as dump:
        options: dict[str, str | bool] = {"xla_dump_to": dump} if platform == "gpu" else {}
        from retrace.jax_internals.profile import Profile

        lowered.compile()  # what is done once is in no profile
        jax.clear_caches()
        lowered = jax.jit(step).lower(x)
        profile = Profile()
        assert profile.begin() is None
        compiled = lowered.compile(options)
        data = profile.end()
        assert data is not None
        into = Path(folder)
        (into / f"{platform}.xplane.pb.xz").write_bytes(lzma.compress(data, preset=9))
        text = str(compiled.as_text()).replace(__file__, "accelerated.py")
        (into / f"{platform}.hlo.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        for thunks in Path(dump).glob("*jit_step.thunk_sequence.txt"):
            kernels = re.findall(r"Kernel +\[.*?\] +(\S+)", thunks.read_text(encoding="utf-8"))
            each = [*dict.fromkeys(kernels)]
            (into / f"{platform}.kernels").write_text("\n".join(each) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
