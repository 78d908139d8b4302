"""Compares two recordings. The conclusions are data."""
