-- Which advice would save most over all runs, where it surely applies.
SELECT
    fix_code,
    function,
    file,
    line,
    count(*) AS misses,
    round(sum(own), 3) AS seconds,
    any_value(fix) AS fix
FROM 'tables/misses/*.parquet'
WHERE avoidable = 'yes' AND fix_code IS NOT NULL
GROUP BY fix_code, function, file, line
ORDER BY seconds DESC, function
LIMIT 50;
