"""Faults in where files go: by address, by root, by state element."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_PLACED = (
    "property/test_elements_storage.py::"
    "test_every_file_lies_where_its_elements_go_and_the_state_is_that_of_plain_python"
)
_ODD = "unit/storage/test_open.py::test_the_address_of_a_storage_opens_its_folder_whatever_that_is_called"

PLACES = (
    mutant(
        "addresses: the path of a folder is not quoted",
        "storage/contract.py",
        _ODD,
        'f"{scheme}://{quote(os.fsencode(folder))}"',
        'f"{scheme}://{folder}"',
    ),
    mutant(
        "elements: a lost root is written to as if it were new",
        "storage/composed/elements.py",
        "unit/storage/composed/test_elements.py::test_a_lost_root_is_told_and_nothing_is_written_to_it",
        "        self._make_ready(root)\n        return root",
        "        return root",
    ),
    mutant(
        "elements: small changes all go home",
        "checkpoint/commit/commit.py",
        _PLACED,
        "tuple(write_changes(place, FrameKind.DELTA, own, mark) for place, own in placed)",
        "tuple(write_changes(storage, FrameKind.DELTA, own, mark) for place, own in placed)",
    ),
    mutant(
        "elements: a snapshot has the elements of the first place alone",
        "checkpoint/snapshots/compaction.py",
        _PLACED,
        "self._mark, groups) for place, own in places)",
        "self._mark, groups) for place, own in places[:1])",
    ),
    mutant(
        "elements: what is known of elements does not travel with the address",
        "storage/composed/elements.py",
        "unit/storage/composed/test_elements.py::test_what_is_known_of_elements_travels_with_the_address",
        '        wish = names + (f":{indexes}" if names and indexes else "")\n',
        "        wish = names\n",
    ),
    mutant(
        "elements: lost changes are computed again for the places of today",
        "engine/durability/replaying.py",
        "property/test_elements_storage.py::test_levels_of_durability_and_rescales_do_not_mind",
        "    storage = unsynced_of(unplaced(storage))\n",
        "",
    ),
    mutant(
        "verify: epochs that are lost count as given up",
        "checkpoint/read/verify.py",
        "unit/checkpoint/read/test_verify.py::test_epochs_that_are_lost_while_they_are_looked_at_are_told",
        " and is_retired(storage, epoch) for epoch in concerned",
        " for epoch in concerned",
    ),
    mutant(
        "forks: the password of the source is written down",
        "checkpoint/forking.py",
        "contract/test_servers.py::test_a_fork_does_not_write_the_password_of_its_source_down",
        "    if not copy and holds_password(base.url):\n",
        "    if False:\n",
    ),
    mutant(
        "forks: a copy takes damage along",
        "checkpoint/forking.py",
        "unit/checkpoint/test_forking.py::test_a_copy_takes_no_damage_along",
        "get_content(base, needed[name]) if name in needed else base.get(name)",
        "base.get(name)",
    ),
)
