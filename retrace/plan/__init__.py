"""What to change first, and what remains: recorded keys replayed under each fix."""
