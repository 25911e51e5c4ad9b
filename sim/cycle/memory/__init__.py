"""The blocks of `hw.memory`, cycle by cycle."""
