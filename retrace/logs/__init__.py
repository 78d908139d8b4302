"""Recordings made of the logs of JAX, for programs that nobody recorded."""
