"""Schedules of operators for a CPU, which need no tuning."""
