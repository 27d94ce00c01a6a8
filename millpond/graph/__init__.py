"""The stateful dataflow graph: task elements, state elements, and the edges between them.

In reading order: `model`, `order`, `cost`, `text`, `allocation`, `render/`.
"""
