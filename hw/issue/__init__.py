"""What the three stages share: in-order issue and retirement, and the queues of dependence tokens between stages."""
