"""Tensor expressions: what is to be computed, without saying how."""
