"""The blocks of `hw.control` that take time, cycle by cycle."""
