"""The files between the recording wing and the reading wing."""
