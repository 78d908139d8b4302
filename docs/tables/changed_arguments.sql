-- Which argument changes most often, in which way, and what that costs.
SELECT
    misses.function,
    changes.component,
    changes.path,
    count(DISTINCT changes.miss) AS misses,
    count(DISTINCT changes.new) AS different_values,
    round(sum(misses.own) FILTER (WHERE changes.position = 0), 3) AS seconds_where_first
FROM 'tables/changes/*.parquet' AS changes
JOIN 'tables/misses/*.parquet' AS misses USING (run, miss)
WHERE changes.component NOT IN ('program', 'code')
GROUP BY misses.function, changes.component, changes.path
ORDER BY misses DESC, misses.function, changes.path
LIMIT 50;
