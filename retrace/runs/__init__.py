"""Compare two recordings. The conclusions are data."""
