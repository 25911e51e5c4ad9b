"""Searches: the ways through a task's space, behind one interface."""
