"""Recording and explaining inside a running program."""
