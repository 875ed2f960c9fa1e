"""``python -m tilesat`` is the console script ``tilesat``."""

from __future__ import annotations

from tilesat.cli import main

main()
