"""The names of losses: what could not be written or read, as counted in `Run.losses`."""

UNREADABLE_LINE = "unreadable line"
LATER_LINE = "a later line about a miss that is missing"
KEY = "a miss whose key is missing"
PARENT = "the enclosing miss is missing"
CALL_SITE = "a call site is missing"
SECOND_FILE = "a second file of the same process was left out"
TOO_LARGE = "too large to be recorded"
