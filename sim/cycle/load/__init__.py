"""The blocks of `hw.load`, cycle by cycle."""
