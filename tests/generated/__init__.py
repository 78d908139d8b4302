"""Generated programs to which an advice applies, and near misses to which it must not.

Each program has the edits that advice may ask for, applied by machine. What is proved of each:
advice that is told, not asked, removes the misses that the plan says it does, and the results
are what they were; where a miss is called avoidable for certain, there is such advice.

`python -m tests.generated --count 5000` runs as many as it is told, and prints the seed of what
it finds; `tests/recording/test_generated.py` runs a sample, drawn by the commit.
"""
