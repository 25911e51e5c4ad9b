"""The compiler: tensor expressions, schedules, loop IR, code generators and the graph level."""
