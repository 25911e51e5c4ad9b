"""The blocks of `hw.compute`, cycle by cycle."""
