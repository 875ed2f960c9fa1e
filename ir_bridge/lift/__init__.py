"""Lift: a plan written back as structured loops (specification 1, "算法" 7 to 15)."""

from __future__ import annotations

from ir_bridge.lift.lift import lift

__all__ = ["lift"]
