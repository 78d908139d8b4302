"""What differs between two misses, and which earlier miss to hold a new one against."""
