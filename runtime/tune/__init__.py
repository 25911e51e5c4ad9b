"""Tuning: measurement of candidates, records and the command."""
