"""Products of matrices and other sums of products, with their schedules for a CPU, which plain convolutions share."""
