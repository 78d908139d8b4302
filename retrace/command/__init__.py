"""The `retrace` command line: parse, launch, select recordings, set the exit code."""
