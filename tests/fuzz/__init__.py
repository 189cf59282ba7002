"""Random tables and random queries, and what DuckDB answers to them.

``values`` has the literals of every type, ``data`` tables as Parquet files, ``expressions`` and
``queries`` the SQL, ``trial`` one seed from beginning to end. Everything follows from the seed.
"""
