"""Forks recording processes and kills each at a random moment.

python killed.py DIR NUMBER [SEED]     a recording in DIR for each; prints one line of JSON
                                       a process: where, after how long, how far it had got
"""

import json
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

import jax
import numpy as np

from retrace.capture import session

LONGEST = 0.4


@jax.jit
def step(x, scale):
    return (x * scale).sum()


def work(directory, told):
    """Miss without end, and tell of each miss that is over."""
    session.start(directory)
    number = 0
    while True:
        given = np.ones((number + 1, 2), np.float32), np.float32(2)
        if number % 10:
            step.lower(*given)
        else:
            step(*given)
        number += 1
        os.write(told, struct.pack("i", number))


def main():
    home, number = Path(sys.argv[1]), int(sys.argv[2])
    moments = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    for index in range(number):
        directory = home / f"{index:04}"
        directory.mkdir(parents=True)
        reads, told = os.pipe()
        after = moments.uniform(0.0, LONGEST)
        child = os.fork()
        if not child:
            work(directory, told)
        os.close(told)
        with os.fdopen(reads, "rb") as pipe:
            # One in five is killed before its first miss is over, or soon after.
            data = pipe.read(4) if index % 5 else b""
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            data += pipe.read()
        done = struct.unpack("i", data[-4:])[0] if data else 0
        print(json.dumps({"in": str(directory), "after": after, "done": done}), flush=True)


main()
