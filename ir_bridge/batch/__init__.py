"""Batch matmul schedules as multi-core loop IR, and the check that such a program covers its result."""
