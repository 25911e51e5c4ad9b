"""The blocks of `hw.issue`, cycle by cycle."""
