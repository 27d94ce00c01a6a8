"""What is known of the values of a method: where they come from, of which type they are, and who shares them.

In reading order: `values`, `reaching`, `liveness`, `mutability`, `record_types`, `effects`, `types`, `objs`,
`points_to`, `owned`, `whole`, `hints`, `objects`, `outside/`, `sets/`.
"""
