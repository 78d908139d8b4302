"""Recordings that somebody tampered with, read by every command.

python -m tests.hostile --seconds 600     more of them than the suite has time for
"""
