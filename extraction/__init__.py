"""From a saturated e-graph to a plan: snapshot, policies, solvers; and why it is this plan."""
