-- Which argument changes most often, in which way, and what that costs.
WITH counted AS (
    SELECT miss, component, path, position, hash(new) AS value
    FROM 'tables/changes/*.parquet'
    WHERE component NOT IN ('program', 'code')
)
SELECT
    misses.function,
    counted.component,
    counted.path,
    count(*) AS misses,
    count(DISTINCT counted.value) AS different_values,
    round(sum(misses.own) FILTER (WHERE counted.position = 0), 3) AS seconds_where_first
FROM counted
JOIN 'tables/misses/*.parquet' AS misses USING (miss)
GROUP BY misses.function, counted.component, counted.path
ORDER BY count(*) DESC, misses.function, counted.path
LIMIT 50;
