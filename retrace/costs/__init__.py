"""Where the seconds and bytes of one miss went, computed from the recording."""
