"""The same queries on the same files: Flink with RocksDB beside Tailrace with Redis."""
