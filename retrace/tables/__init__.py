"""Recordings as Parquet tables, for DuckDB, pandas, polars and others."""
