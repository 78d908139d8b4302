"""Compare the processes of one job: which one differs, where it first did, and in what."""
