"""Shared by all packages: errors, text for people, limits, files, processes; standard library only."""
