"""The one room that knows JAX's private side."""
