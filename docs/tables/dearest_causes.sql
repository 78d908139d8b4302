-- The dearest causes over all runs, and what of them could surely be avoided.
SELECT
    cause,
    count(*) AS misses,
    count(DISTINCT run) AS runs,
    round(sum(own), 3) AS seconds,
    round(coalesce(sum(own) FILTER (WHERE avoidable = 'yes'), 0), 3) AS avoidable_seconds
FROM 'tables/misses/*.parquet'
GROUP BY cause
ORDER BY seconds DESC, cause;
