"""`retrace doctor`: whether retrace works on this machine, and what it lacks where not."""
