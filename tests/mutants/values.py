"""Faults by which state would hold more than values: objects in two places, or shared with what is outside of a row."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_VALUES = "regression/test_state_holds_values.py::"
_CUTS = f"{_VALUES}test_every_cut_into_epochs_holds_values"

VALUES = (
    mutant(
        "values: a row of a task ends with the objects that it has",
        "state/rowentries.py",
        _CUTS,
        "                    dict.__setitem__(below, key, renew(dict.__getitem__(below, key)))\n",
        "                    renew(dict.__getitem__(below, key))\n",
    ),
    mutant(
        "values: an object that is handed out is not touched",
        "state/rowentries.py",
        _CUTS,
        "    def __getitem__(self, key: Any) -> Any:\n        self._touched[key] = None\n",
        "    def __getitem__(self, key: Any) -> Any:\n",
    ),
    mutant(
        "values: a plain row ends with the objects that it has",
        "state/containers/element.py",
        f"{_VALUES}test_plain_python_holds_values",
        "        if self.renews:\n            dict.__setitem__(self, key, self.value_codec.renew(value))\n",
        "        if self.renews:\n            self.value_codec.renew(value)\n",
    ),
    mutant(
        "values: a plain row that raises is kept",
        "state/journal.py",
        f"{_VALUES}test_a_row_that_raises_leaves_nothing",
        "            entries.restore(key, first)\n",
        "            entries.end_row(key)\n",
    ),
    mutant(
        "values: a caller gets the reply itself",
        "program/semantics/rows.py",
        f"{_VALUES}test_a_reply_that_is_an_object_of_outside_is_a_copy",
        "            return copied(reply)\n",
        "            return reply\n",
    ),
    mutant(
        "values: a row gets the argument itself",
        "program/semantics/rows.py",
        f"{_VALUES}test_what_a_caller_does_to_an_argument_changes_nothing",
        "function(self, *map(copied, own), **{",
        "function(self, *own, **{",
    ),
    mutant(
        "values: whatever a method puts into state counts as its own",
        "compiler/analysis/owned.py",
        _CUTS,
        "            if not self._is_owned(obj):\n",
        "            if obj not in self._stored:\n",
    ),
    mutant(
        "values: what an object computed once outlives the row",
        "compiler/analysis/record_types.py",
        _CUTS,
        "        if any(isinstance(member, functools.cached_property) for member in members):\n",
        "        if any(member is functools.cached_property for member in members):\n",
    ),
    mutant(
        "outside: what state was given is not known any more when it is read",
        "compiler/analysis/outside/check.py",
        "regression/test_outside_of_rows.py::test_a_change_of_what_is_outside_is_refused_at_its_line",
        "            env[element] = join(env.get(element, NOTHING), value)\n",
        "            env[element] = env.get(element, NOTHING)\n",
    ),
    mutant(
        "outside: functions of the program's own package are not looked into",
        "compiler/analysis/outside/opening.py",
        "regression/test_outside_of_rows.py::test_a_change_of_what_is_outside_is_refused_at_its_line",
        "types.FunctionType) and is_home(function.__module__, program):\n",
        "types.FunctionType) and function.__module__ == '':\n",
    ),
)
