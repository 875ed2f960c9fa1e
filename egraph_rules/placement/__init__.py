"""Placements of conversion: where a value that is wanted in several memory spaces comes from, as equality saturation."""
