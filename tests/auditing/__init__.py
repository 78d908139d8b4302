"""Programs that are out of date, and programs that only look out of date."""
