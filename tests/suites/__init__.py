"""Other projects' test suites, with and without recording: `python -m tests.suites`."""
