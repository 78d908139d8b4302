-- Misses and seconds of a run, commit by commit, in the order in which these first ran.
WITH each_run AS (
    SELECT
        runs.commit,
        runs.run,
        min(runs.started) AS started,
        count(misses.miss) AS misses,
        coalesce(sum(misses.own), 0) AS seconds
    FROM 'tables/runs/*.parquet' AS runs
    LEFT JOIN 'tables/misses/*.parquet' AS misses USING (run)
    WHERE NOT coalesce(runs.dirty, false)
    GROUP BY runs.commit, runs.run
)
SELECT
    commit,
    min(started) AS first_run,
    count(*) AS runs,
    round(avg(misses), 1) AS misses_a_run,
    round(avg(seconds), 3) AS seconds_a_run
FROM each_run
GROUP BY commit
ORDER BY first_run;
