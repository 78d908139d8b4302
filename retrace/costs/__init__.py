"""Where the seconds and the bytes of one miss went, added up from what was recorded."""
