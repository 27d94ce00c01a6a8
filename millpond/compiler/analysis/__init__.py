"""What is known of the values of a method: where they come from, of which type they are, and who shares them.

In reading order: `reaching`, `liveness`, `mutability`, `record_types`,
`kinds`, `fits`, `objects`, `only_read`, `sharing`, `owned`, `outside/`, `sets/`.
"""
