"""Who writes which file: the driver, or tasks under an id that follows from the file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.sinks import StagedFile, Token
from millpond.sinks.kafka.writers import DRIVER_ROWS, SMALL_ROWS, slot_of_large, slots_of

TOKEN = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)


def files_of(*rows):
    return [StagedFile(TOKEN.of_file(f"f{number}"), Path("none"), count) for number, count in enumerate(rows)]


@pytest.mark.parametrize("rows", [[DRIVER_ROWS], [DRIVER_ROWS // 2] * 2, [1]])
def test_the_driver_writes_small_epochs(rows):
    files = files_of(*rows)
    assert slots_of(files, again=False) == {0: files}


@pytest.mark.parametrize("again", [True, False])
def test_large_files_of_large_epochs_have_slots_of_their_own(again):
    large, small = files_of(DRIVER_ROWS, SMALL_ROWS - 1)
    assert slots_of([large, small], again=again) == {slot_of_large(large.token): [large], 0: [small]}


def test_what_is_left_of_a_large_epoch_goes_the_way_that_it_had():
    whole = files_of(*[SMALL_ROWS * 4] * 4)
    for file in whole:
        ((slot, _),) = slots_of([file], again=True).items()
        assert file in slots_of(whole, again=False)[slot]
