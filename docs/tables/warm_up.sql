-- How long the misses of a run went on: seconds from its start to each tenth of its misses.
WITH placed AS (
    SELECT
        misses.run,
        epoch(misses.time) - epoch(runs.started) AS age,
        ntile(10) OVER (PARTITION BY misses.run ORDER BY misses.time) AS tenth
    FROM 'tables/misses/*.parquet' AS misses
    JOIN 'tables/runs/*.parquet' AS runs USING (run)
    WHERE misses.parent IS NULL
)
SELECT run, tenth, count(*) AS misses, round(max(age), 3) AS seconds_after_start
FROM placed
GROUP BY run, tenth
ORDER BY run, tenth;
