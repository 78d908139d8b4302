-- What JAX's on-disk cache did, by outcome, and the seconds that hits saved.
SELECT
    cache.outcome,
    cache.reason,
    count(*) AS compilations,
    round(sum(misses.compile), 3) AS seconds,
    round(coalesce(sum(cache.saved), 0), 3) AS seconds_saved
FROM 'tables/cache/*.parquet' AS cache
JOIN 'tables/misses/*.parquet' AS misses USING (run, miss)
GROUP BY cache.outcome, cache.reason
ORDER BY compilations DESC, cache.outcome;
