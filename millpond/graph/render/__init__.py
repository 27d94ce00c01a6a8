"""A graph drawn: for Mermaid and Graphviz, as a picture, as a page beside its source.

In reading order: `mermaid`, `dot`, `layout`, `svg`, `looks`, `page`.
"""
