"""What differs between two misses, and which earlier miss to compare a new one with."""
