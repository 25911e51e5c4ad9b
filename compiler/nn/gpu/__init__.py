"""Schedules of operators for a GPU, which need no tuning."""
