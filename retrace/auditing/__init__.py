"""Finds compiled programs that no longer match the code, inside the running program."""
