"""What all parts share: errors, text for people, limits, files, processes; standard library only."""
