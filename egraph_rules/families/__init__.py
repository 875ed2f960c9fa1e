"""One file per rule family of tiling, named for its idea; :mod:`egraph_rules.catalogue` lists them."""
