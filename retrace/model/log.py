"""What a program's log may not show about a miss, in words (`Miss.unseen`)."""

from __future__ import annotations

LOG_NEW = "whether its function was created again or its caches were cleared"
LOG_OBJECTS = "which of its earlier calls had the same function object"
LOG_EARLIER = "its earlier calls"
LOG_KEY = "its whole cache key"
LOG_STATIC = "its static arguments"
LOG_UNUSED = "the arguments that its program does not use"
LOG_OPTIONS = "what other than its trace is new: options of jit, placement, a derived program"
LOG_NAME = "whether it is a function of JAX's own"
LOG_WHOSE = "which function of that name it is"
LOG_BODY = "which function it was given"
LOG_TORN = "what stood in lines that are torn"
OF_LOG = frozenset(
    {
        LOG_NEW,
        LOG_OBJECTS,
        LOG_EARLIER,
        LOG_KEY,
        LOG_STATIC,
        LOG_UNUSED,
        LOG_OPTIONS,
        LOG_NAME,
        LOG_WHOSE,
        LOG_BODY,
        LOG_TORN,
    }
)
"""What a log may omit; nothing is concluded then, not even a first trace."""
