"""The files that nodes write, as data sources for Spark. `log_source` registers them."""
