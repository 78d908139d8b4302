"""`retrace doctor`: checks whether retrace works on this machine, and what is missing if not."""
