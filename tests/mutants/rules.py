"""Faults in rules of the language: relaxed moves, guards, names, undoing rows in place, functions as values, sets."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_RELAXED = "regression/test_relaxed_loops.py"
_NAMES = "regression/test_own_names.py::test_a_program_with_names_of_its_own_gives_what_plain_python_gives"
_RAISING = "regression/test_rows_that_raise.py::test_rows_that_raise_are_as_if_they_had_never_been_fed"
_OUTSIDE = "regression/test_outside_of_rows.py::test_a_change_of_what_is_outside_is_refused_at_its_line"

RULES = (
    mutant(
        "relaxed: a key under another name is another key",
        "compiler/plan/dispatch.py",
        _RELAXED,
        "(stop.identity == start.identity or self._key_type(stop) == self._key_type(start))",
        "stop.identity == start.identity",
    ),
    mutant(
        "relaxed: turns of a loop are sent away before partial state is met",
        "compiler/plan/fan_out.py",
        f"{_RELAXED}::test_a_loop_before_partial_state_is_done_turn_by_turn",
        "        if len(places) > 1 or any(stop.kind is Kind.LOCAL for stop in later):\n",
        "        if len(places) > 1:\n",
    ),
    mutant(
        "guards: nobody looks whether a variable holds a key",
        "compiler/back/codegen.py",
        "regression/test_guarded_keys.py::test_a_row_that_reaches_it_fails_at_its_line_as_in_plain_python",
        "        if is_sure_key(self._method, piece.key, self._draft.elements[element]):\n",
        "        if piece.key:\n",
    ),
    mutant(
        "names: Python's own functions come before those of the program",
        "compiler/front/scope.py",
        _NAMES,
        "        for where in (self.closure, self.module, vars(builtins)):\n",
        "        for where in (vars(builtins), self.closure, self.module):\n",
    ),
    mutant(
        "undo: entries that a raising row touched stay as it left them",
        "engine/task/inorder.py",
        _RAISING,
        "            overlay.restore({unit: known[unit] for unit in units})\n",
        "            overlay.restore({})\n",
    ),
    mutant(
        "undo: rows that met the same entries do not run again",
        "engine/task/inorder.py",
        _RAISING,
        "        ran = found[~self._out[found]]\n",
        "        ran = found[:0]\n",
    ),
    mutant(
        "undo: rows that were left out run again with the others",
        "engine/task/inorder.py",
        _RAISING,
        "        self._out[first:last] = True\n",
        "",
    ),
    mutant(
        "outside: a function that comes as a value is not looked into",
        "compiler/analysis/outside/check.py",
        _OUTSIDE,
        "results += [self._run_mentioned(one, [every] * _PARAMETERS_MAX, {}) for one in list(self.mentioned)]\n",
        "results += [every]\n",
    ),
    mutant(
        "outside: a method that is taken as a value changes nothing",
        "compiler/analysis/outside/check.py",
        _OUTSIDE,
        "if is_changer(one, node.attr))))\n",
        "if one.text == node.attr)))\n",
    ),
    mutant(
        "sets: members are stored in the order in which they are walked",
        "state/codec/canonical.py",
        "regression/test_sets_of_epochs.py",
        "    return sorted(members, key=_encoder_of(members))\n",
        "    return list(members)\n",
    ),
    mutant(
        "feeding: windows that are looked up by a text are not seen",
        "program/semantics/reach.py",
        "unit/program/semantics/test_reach.py",
        " or not self.words.isdisjoint(_BY_TEXT))\n",
        ")\n",
    ),
    mutant(
        "feeding: what is given to other functions is asked for nothing there",
        "program/semantics/reach.py",
        "unit/program/semantics/test_reach.py",
        "there = name in self.elsewhere and ",
        "there = False and ",
    ),
    mutant(
        "notes: what an older version noted counts for every epoch of its number",
        "engine/publish/staging.py",
        "regression/test_replies_after_going_back.py",
        "if manifest.format == 1 else (usual,)\n",
        "if manifest.format else (usual,)\n",
    ),
    mutant(
        "simulated: an epoch that failed behind its commit is a new one the next time",
        "engine/simulated.py",
        "unit/engine/test_simulated.py",
        "self._failed[0] if self._failed is not None and self._failed[1] == offered else self.batch",
        "self.batch",
    ),
)
