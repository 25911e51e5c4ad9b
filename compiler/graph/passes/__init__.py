"""Passes over graphs: named steps from a graph to one that computes the same."""
