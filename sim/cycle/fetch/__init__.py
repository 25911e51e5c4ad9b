"""The blocks of `hw.fetch`, cycle by cycle."""
