"""Memory: AXI4 masters, the bursts that they move, and scratchpads."""
