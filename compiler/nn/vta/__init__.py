"""Operators for the accelerator, in its layouts, with schedules for any legal configuration."""
