"""Batch matmul on many cores as rules: its language, one file per branch, and the run that gives every branch its chance."""
