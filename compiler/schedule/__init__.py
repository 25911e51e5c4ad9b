"""Schedules: how a tensor expression is computed."""
