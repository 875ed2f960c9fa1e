"""From a program to what the e-graph knows of it: facts, problems, sites."""

from ir_bridge.lower.lower import Lowered, lower

__all__ = ["Lowered", "lower"]
