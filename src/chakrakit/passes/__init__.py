"""From trace to trace: what-ifs, scaling, compaction."""
