"""Processes of one job held against each other: which did otherwise, where first, and in what."""
