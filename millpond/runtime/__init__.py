"""Ways to run a compiled program: sequential, simulated, and on Spark."""
