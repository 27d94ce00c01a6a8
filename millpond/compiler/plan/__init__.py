"""How each entry point is run: where it is cut, at which steps, and which keys its rows need.

In reading order: `access`, `gather`, `fan_out`, `check_merge`, `split`,
`stratify`, `dispatch`, `routing`, `sure_keys`, `aliases`, `key_slice/`, `way_choice`.
"""
