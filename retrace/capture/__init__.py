"""The recording wing: from what JAX shows to lines of a recording."""
