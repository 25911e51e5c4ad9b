"""Bitstreams of whole boards with open tools: synthesis, placement with several seeds, routing, packing, and reports."""
