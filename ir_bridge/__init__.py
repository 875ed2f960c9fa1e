"""Between texts and e-graphs: the loop IR, tensor programs made into tile programs, facts of a program, loops of a plan."""
