"""The file between the recording wing and the reading wing."""
