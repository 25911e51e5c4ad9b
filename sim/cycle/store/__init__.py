"""The blocks of `hw.store`, cycle by cycle."""
