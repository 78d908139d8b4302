"""Recordings as Parquet tables, which DuckDB, pandas, polars and others read."""
