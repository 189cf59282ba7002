from tests.datasets import tpcds_tiny, tpch_tiny

__all__ = ["tpcds_tiny", "tpch_tiny"]
