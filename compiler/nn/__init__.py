"""Operators as tensor expressions, with schedules that need no tuning."""
