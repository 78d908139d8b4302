-- Which host spends most, and how far it is from the others of its job.
WITH spent AS (
    SELECT runs.job, runs.host, count(*) AS misses, sum(misses.own) AS seconds
    FROM 'tables/runs/*.parquet' AS runs
    JOIN 'tables/misses/*.parquet' AS misses USING (run)
    GROUP BY runs.job, runs.host
)
SELECT
    job,
    host,
    misses,
    round(seconds, 3) AS seconds,
    round(seconds / nullif(median(seconds) OVER (PARTITION BY job), 0), 2) AS times_the_median
FROM spent
ORDER BY seconds DESC, host;
