"""The VTA instruction set, said once as data; standard library only."""
