"""The tuner: search over the decisions of a program, with a cost model that learns from measurements."""
