"""What must not miss: assertions, `freeze`, `policy`, budgets and baselines."""
