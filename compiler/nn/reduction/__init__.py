"""Reductions, norms, pools and losses, with the schedule of those whose rows depend on their reductions (`rows_cpu`)."""
