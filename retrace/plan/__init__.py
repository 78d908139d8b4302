"""What to change first, and what is left then: recorded keys replayed under each fix."""
