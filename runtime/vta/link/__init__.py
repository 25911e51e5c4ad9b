"""The host's end of a board's link. docs/link.md describes it."""
