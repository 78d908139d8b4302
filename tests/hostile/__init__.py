"""Recordings that were tampered with, read by every command.

python -m tests.hostile --seconds 600     tries more than the suite has time for
"""
