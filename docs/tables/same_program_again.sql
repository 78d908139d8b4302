-- Programs that were compiled again and again, over all runs: candidates for the on-disk cache.
SELECT
    program,
    any_value(function) AS function,
    max(equations) AS equations,
    count(DISTINCT run) AS runs,
    sum(compiles) AS compilations,
    round(sum(compile), 3) AS seconds,
    round(sum(compile) - max(compile / nullif(compiles, 0)), 3) AS seconds_again
FROM 'tables/programs/*.parquet'
WHERE compiles > 0
GROUP BY program
HAVING sum(compiles) > 1
ORDER BY seconds_again DESC, program
LIMIT 50;
