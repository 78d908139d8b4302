"""Why each miss happened, whether it was avoidable, and what to do about it."""
