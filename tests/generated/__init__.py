"""Generated programs to which some advice applies, and near misses to which it must not.

Each program comes with the edits that advice may ask for, applied automatically. For each program
it is proved that advice given as a statement removes the misses the plan says it does and keeps
the results, and that clearly avoidable misses have such advice.

`python -m tests.generated --count 5000` runs the given number of programs and prints the seeds of
failures; `tests/recording/test_generated.py` runs a sample drawn by the commit.
"""
