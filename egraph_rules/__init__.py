"""The rewrite rules as data, the language they speak, and the engine that runs them. Rules are legality; cycles are elsewhere."""
