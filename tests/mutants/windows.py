"""Faults in windows: in slices, sessions, what waits and what is told."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_BRUTE = "property/test_windows_element.py::test_plain_python_tells_what_a_brute_force_over_all_rows_says"
_CHAINED = "regression/test_windows_that_feed_windows.py"
_SIMULATED = "property/test_windows_element.py::test_a_simulated_run_equals_plain_python"
_BY_COLUMNS = "property/test_windows_adds.py::test_what_is_held_has_the_same_bits"
_MERGED = "property/test_windows_merged.py::test_"
_MERGED_EXACT = f"{_MERGED}where_nothing_is_rounded_there_are_never_more_slices_than_open_windows"
_MERGED_FLOATS = f"{_MERGED}floats_have_the_same_bits_whenever_windows_are_told"

WINDOWS = (
    mutant(
        "windows: the ends of windows do not cut slices",
        "windowing/kinds/cuts.py",
        _BRUTE,
        "begins += [grid.end(grid.oldest(time) - 1) for grid, _ in self._grids if grid.rest]",
        "begins += []",
    ),
    mutant(
        "windows: slices go while a window that holds them is open",
        "windowing/keyed/keyslices.py",
        _BRUTE,
        "bisect_right(now.slices, final, key=",
        "bisect_right(now.slices, final + 2_000_000, key=",
    ),
    mutant(
        "windows: blocks begin where the first window that is told ends",
        "windowing/keyed/keyslices.py",
        "property/test_windows_blocks.py::test_a_window_has_the_same_bits_told_alone_with_others_or_again",
        "grid.begin(block * reach)",
        "group[0].end",
    ),
    mutant(
        "windows: slices become one though an open window begins between them",
        "windowing/keyed/keyslices.py",
        _MERGED_EXACT,
        "is_open = _from(newest, first) & (grid.ends(newest) > final)",
        "is_open = _from(newest, first) & (grid.ends(newest) > final + 3)",
    ),
    mutant(
        "windows: slices become one while rows may come",
        "windowing/keyed/keyslices.py",
        _MERGED_FLOATS,
        "(running := self._cuts.last(final))",
        "(running := final + 1)",
    ),
    mutant(
        "windows: floats are added up in the order in which slices became one",
        "windowing/keyed/keyslices.py",
        _MERGED_FLOATS,
        "leads if grid.whole + grid.rest == 1 else False",
        "leads",
    ),
    mutant(
        "windows: numbers are held for integers until the first float comes",
        "windowing/keyed/keyslices.py",
        _MERGED_FLOATS,
        "else declared in _WHOLE",
        "else declared in (*_WHOLE, float)",
    ),
    mutant(
        "windows: what is over is kept in pieces",
        "windowing/keyed/keyslices.py",
        _MERGED_EXACT,
        "(self._exact or ahead[low])",
        "ahead[low]",
    ),
    mutant(
        "windows: by columns, a sum of negative zeros is zero",
        "windowing/aggregates/sums.py",
        _BY_COLUMNS,
        "0 if whole else -0.0",
        "0 if whole else 0.0",
    ),
    mutant(
        "windows: by columns, a variance beyond all floats is infinite",
        "windowing/aggregates/variances.py",
        f"{_BY_COLUMNS}[overlapping-odd]",
        "odd |= ~(np.isfinite(apart) & np.isfinite(squares))",
        "odd |= np.isnan(apart)",
    ),
    mutant(
        "windows: by columns, pieces of a session are added up as rows come",
        "windowing/keyed/keysessions.py",
        "property/test_windows_adds.py::test_sessions_of_many_rows_hold_the_same_bits_in_any_disorder",
        "in_parts[pieces[1:][same & ~near]] = True",
        "in_parts[pieces[1:][same & ~near & (came[1:] < 0)]] = True",
    ),
    mutant(
        "windows: by columns, a session that late rows change counts as new",
        "windowing/keyed/keysessions.py",
        f"{_BY_COLUMNS}[long sessions-plain]",
        "known[cell] = OPEN if old[at][2] == OPEN else CHANGED",
        "known[cell] = OPEN",
    ),
    mutant(
        "windows: by columns, rows wait as they came",
        "windowing/keyed/keyrows.py",
        "property/test_windows_adds.py::test_what_waits_is_the_same",
        "            held[1].sort(key=_TIME)  # Those of one time stay as they came.\n",
        "",
    ),
    mutant(
        "windows: a record a gap after the one before it goes on with the session",
        "windowing/kinds/driven.py",
        "property/test_windows.py::test_records_taken_at_once_leave_the_state_that_they_leave_one_by_one",
        "if times[place] - before >= self._gap:",
        "if times[place] - before > self._gap:",
    ),
    mutant(
        "windows: by columns, a slice that late rows change counts as new",
        "windowing/keyed/keycolumns.py",
        _BY_COLUMNS,
        "insort(late, (begin, begin not in known))",
        "insort(late, (begin, True))",
    ),
    mutant(
        "windows: by columns, rows of feeds without event time come at no time",
        "engine/task/inorder.py",
        "property/test_windows_adds.py::test_a_run_by_columns_writes_the_same_bytes_and_tells_the_same",
        "np.full(count, windows.clock(), np.int64)",
        "np.full(count, 0, np.int64)",
    ),
    mutant(
        "windows: a late row corrects nothing",
        "windowing/keyed/keyslices.py",
        _BRUTE,
        "                    insort(late, (begin, fresh))\n",
        "                    pass\n",
    ),
    mutant(
        "windows: one that came tells a window that began before it",
        "windowing/keyed/keyslices.py",
        "unit/engine/test_simulated_windows_changed.py",
        "grid.newest(known[name]) + 1 for",
        "grid.newest(known[name]) for",
    ),
    mutant(
        "windows: one that came tells a session that began before it",
        "windowing/keyed/keyslices.py",
        "unit/engine/test_simulated_windows_changed.py",
        "known[name] + gap for",
        "known[name] + 1 for",
    ),
    mutant(
        "windows: one that goes takes the slices of the others with it",
        "windowing/keyed/keyslices.py",
        "property/test_windows_changed.py::test_windows_over_time_stay_and_come",
        "slices[place] = self._aggregate.combine(slices[place], less) if place in slices else less",
        "slices[place] = less",
    ),
    mutant(
        "windows: rows that wait are taken as they came",
        "windowing/keyed/keyrows.py",
        _BRUTE,
        "now.rows.insert(bisect_right(now.rows, time, key=_TIME), (time, record))",
        "now.rows.append((time, record))",
    ),
    mutant(
        "windows: handlers add to windows that are emitted",
        "program/semantics/epoch_time.py",
        "regression/test_windows_that_feed_windows.py::test_a_timer_of_the_past_adds_to_no_window_that_was_told",
        "return row_us if first is None else max(row_us, first)",
        "return row_us",
    ),
    mutant(
        "windows: what feeds others is emitted with them",
        "program/feeding.py",
        _CHAINED,
        "            stage=levels[name],\n",
        "            stage=0,\n",
    ),
    mutant(
        "windows: what feeds others does not wait for late rows",
        "program/feeding.py",
        _CHAINED,
        "            lag_us=lags[name],\n",
        "            lag_us=0,\n",
    ),
    mutant(
        "windows: a handler that feeds others is called with all that is over",
        "program/feeding.py",
        _CHAINED,
        "            timely=name in timely,\n",
        "            timely=False,\n",
    ),
    mutant(
        "windows: handlers that meet the same state are called level by level",
        "state/cascade.py",
        "property/test_windows_chained.py::test_handlers_that_feed_each_other_are_told_what_a_brute_force_says_on_any_cut",
        "            return Round(self._together(others), Turn(stage, left=True))\n",
        "            return Round(others, Turn(stage, left=True))\n",
    ),
    mutant(
        "windows: a handler with nothing to tell replies",
        "engine/task/delivery.py",
        _SIMULATED,
        "if point.windows and any(value is Done for value in values):",
        "if point.windows and not values:",
    ),
    mutant(
        "windows: what orders them is written twice where a moment stays",
        "state/timers.py",
        "property/test_windows_element.py::test_deltas_hold_each_key_once_and_a_snapshot_holds_the_windows_that_are_open",
        "        if was == now:\n            continue\n",
        "",
    ),
)
