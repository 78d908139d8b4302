"""Guards against misses: assertions, `freeze`, `policy`, budgets and baselines."""
