"""What hardware is, and what a tile costs on it: targets, element types, cost models, the pipeline simulator."""
