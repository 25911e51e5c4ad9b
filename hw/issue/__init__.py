"""Shared parts of the three stages: in-order issue and retirement, and the queues of dependence tokens between stages."""
