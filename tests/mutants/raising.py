"""Faults by which a row that raises would cost more than that row, or leave something."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_UNFIT = "regression/test_rows_that_do_not_fit.py::"
_NEVER_FED = f"{_UNFIT}test_rows_whose_results_do_not_fit_are_as_if_they_had_never_been_fed"
_RELAXED = "regression/test_relaxed_rows_that_raise.py::"

RAISING = (
    mutant(
        "raising: rows after one whose reply does not fit keep what they met",
        "engine/task/inorder.py",
        _NEVER_FED,
        "        self._undo(at, end)\n        self._out[at + 1 : end] = False\n",
        "        self._undo(at, at + 1)\n        self._out[at + 1 : end] = False\n",
    ),
    mutant(
        "raising: rows that run again count as rows that did nothing",
        "engine/task/inorder.py",
        _NEVER_FED,
        "        self._out[at + 1 : end] = False\n",
        "",
    ),
    mutant(
        "raising: what was said of rows that run again is said twice",
        "engine/task/inorder.py",
        _NEVER_FED,
        "        chunk.left = {place: told for place, told in chunk.left.items() if place < at}\n",
        "        chunk.left = {place + end: told for place, told in chunk.left.items()}\n",
    ),
    mutant(
        "raising: rows run again with what they made of their arguments",
        "engine/task/rowbatch.py",
        _NEVER_FED,
        "                column[count:ran] = values\n",
        "                column[count:ran] = column[count:ran] or values\n",
    ),
    mutant(
        "raising: of rows that have to do with each other only the nearest run again",
        "engine/gathered/links.py",
        "unit/engine/gathered/test_transactions.py",
        "                    if not self._one_each:\n",
        "                    if self._one_each:\n",
    ),
    mutant(
        "raising: a row that is tried may give what does not fit",
        "engine/task/inorder.py",
        _NEVER_FED,
        "error = None if raised else self._call(one, 1) or self._result_error(one)",
        "error = None if raised else self._call(one, 1)",
    ),
    mutant(
        "raising: a row may end the process",
        "engine/task/inorder.py",
        f"{_UNFIT}test_whatever_a_row_raises_costs_that_row",
        "        except BaseException as error:  # noqa: BLE001",
        "        except Exception as error:  # noqa: BLE001",
    ),
    mutant(
        "raising: whoever ends the run is taken for a row",
        "engine/task/inorder.py",
        f"{_UNFIT}test_who_ends_the_run_is_no_row",
        "        except (EpochError, KeyboardInterrupt, Passing):\n",
        "        except EpochError:\n",
    ),
    mutant(
        "raising: relaxed epochs are not run uncut",
        "engine/failures.py",
        f"{_RELAXED}test_rows_that_can_be_brought_together_are_run_in_order_in_a_second_run",
        "            if whole is not None:\n                return leaving_out(whole, run)\n",
        "",
    ),
    mutant(
        "raising: rows of relaxed epochs are left out one by one, however many there are",
        "engine/failures.py",
        f"{_RELAXED}test_any_number_of_rows_is_left_out_where_epochs_must_be_computed_in_one_way",
        "                excluded += raised.rows\n",
        "                excluded += raised.rows[:1]\n",
    ),
)
