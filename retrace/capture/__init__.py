"""The recording wing: turns what JAX exposes into lines of a recording."""
