"""Each miss of a running program, handed to a callback of its own."""
