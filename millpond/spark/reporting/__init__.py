"""What is seen of a job from outside: reports of epochs, lines and pages for people, logs, metrics, names of jobs.

In reading order: `reports`, `observers`, `progress`, `html`, `metrics`, `jobnames`.
"""
