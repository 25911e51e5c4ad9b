"""Tensor expressions: what is to be computed, without saying how.

People use them as `vtakit.te`, which adds the names of the schedule.
"""
