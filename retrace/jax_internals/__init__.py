"""The only package that uses JAX's private API."""
