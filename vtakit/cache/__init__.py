"""The user's cache folder: who may have written it, what its files must hash to, how large it grows."""
