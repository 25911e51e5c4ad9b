"""Memory of a board: an SDRAM controller between the AXI4 port of the core and the pins of a chip."""
