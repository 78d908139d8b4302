"""The names of losses: what is not in a log, or could not be read there."""

CUT_SHORT = "the rest of the log, which is damaged"
LONG = "a line longer than 4 MB"
TORN = "a line of JAX's that is torn"
LOWERING = "a lowering whose beginning the log does not show"
DISK_CACHE = "a line of the persistent cache about a program that the log does not show"
