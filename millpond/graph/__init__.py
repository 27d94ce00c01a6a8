"""The stateful dataflow graph: task elements, state elements, and the edges between them.

In reading order: `model`, `cost`, `text`, `allocation`, `render/`.
"""
