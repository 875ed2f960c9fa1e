"""Batch matmul on many cores: chip descriptions, problems, and the latency model of specification 3."""
