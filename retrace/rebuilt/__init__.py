"""Rebuilds programs from a recording and compiles them in separate processes."""
