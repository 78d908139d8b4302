-- The functions that cost most, where they are written, and their main cause.
SELECT
    function,
    file,
    line,
    count(*) AS misses,
    round(sum(own), 3) AS seconds,
    mode(cause) AS main_cause
FROM 'tables/misses/*.parquet'
WHERE kind <> 'op'
GROUP BY function, file, line
ORDER BY seconds DESC, function
LIMIT 50;
