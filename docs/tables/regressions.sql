-- What misses since a commit (a tag's, say) and did not before it: by function and cause.
-- Set it in DuckDB first:  SET VARIABLE since = 'abc1234';  all runs are compared otherwise
-- with the newest commit.
WITH commits AS (
    SELECT commit, min(started) AS first_run
    FROM 'tables/runs/*.parquet'
    WHERE commit IS NOT NULL
    GROUP BY commit
),
mark AS (
    SELECT max(first_run) AS moment FROM commits
    WHERE getvariable('since') IS NULL OR starts_with(commit, getvariable('since'))
),
counted AS (
    SELECT
        misses.function,
        misses.file,
        misses.cause,
        count(*) FILTER (WHERE runs.started >= mark.moment) AS after,
        count(*) FILTER (WHERE runs.started < mark.moment) AS before,
        sum(misses.own) FILTER (WHERE runs.started >= mark.moment) AS seconds
    FROM 'tables/misses/*.parquet' AS misses
    JOIN 'tables/runs/*.parquet' AS runs USING (run)
    CROSS JOIN mark
    GROUP BY misses.function, misses.file, misses.cause
)
SELECT function, file, cause, after AS misses, round(seconds, 3) AS seconds
FROM counted
WHERE after > 0 AND before = 0
ORDER BY seconds DESC, function, cause;
