"""Faults that let lost commits, damaged files and names that lead elsewhere be believed."""

from __future__ import annotations

from tests.mutants.mutant import mutant

_ROLLBACK = "regression/test_rollback_of_storage.py::"
_STORES = "regression/test_damaged_local_stores.py::"
_LOG_POWER = "crash/test_log_crash.py::test_after_a_power_cut_what_was_acknowledged_is_there_and_nothing_else_is_wrong"

DAMAGE = (
    mutant(
        "log: one that ends before its witness is believed",
        "storage/backends/log/logtail.py",
        f"{_ROLLBACK}test_a_log_that_was_made_shorter_in_any_way_is_refused_and_an_accepted_one_goes_on",
        "        elif here < place:\n",
        "        elif here < NOWHERE:\n",
    ),
    mutant(
        "log: the witness is written before the record is durable",
        "storage/backends/log/log.py",
        _LOG_POWER,
        '            crashpoint("record.synced")\n            self._bear_witness(batch)\n',
        '            crashpoint("record.synced")\n',
        "            if any(wanted.name.startswith(COMMITS) for wanted in batch):\n",
        "            self._bear_witness(batch)\n"
        "            if any(wanted.name.startswith(COMMITS) for wanted in batch):\n",
    ),
    mutant(
        "log: an index is believed whose last record is gone",
        "storage/backends/log/logtail.py",
        f"{_ROLLBACK}test_a_log_is_compared_with_its_witness_also_in_a_process_that_knows_it",
        "            if found is None or (found.name, found.payload_bytes) != (name, spot.payload_bytes):\n",
        "            if found is not None and found.name != name:\n",
    ),
    mutant(
        "log: one that was replaced is known from before",
        "storage/backends/log/log.py",
        f"{_ROLLBACK}test_a_log_is_compared_with_its_witness_also_in_a_process_that_knows_it",
        "            return not self._durable.failed and self._tail.is_current()\n",
        "            return not self._durable.failed\n",
    ),
    mutant(
        "recovery: a newest manifest that is lost is not missed",
        "checkpoint/recovery.py",
        f"{_ROLLBACK}test_a_young_checkpoint_that_lost_manifests_is_never_taken_for_a_new_one",
        "    if head is not None and head.epoch > newest:\n",
        "    if head is None and newest < 0:\n",
    ),
    mutant(
        "heads: a commit is not noted",
        "checkpoint/commit/checkpoint.py",
        f"{_ROLLBACK}test_a_whole_folder_of_manifests_that_was_removed_is_missed",
        "            self._heads.note(manifest.epoch, digest)\n",
        "",
    ),
    mutant(
        "publish: a staged file is not compared with its manifest",
        "engine/publish/staging.py",
        "regression/test_staged_replies.py::test_a_damaged_file_of_replies_is_told_and_nothing_of_it_is_seen",
        "        if (size, digest.hexdigest()) != (output.file.size_bytes, output.file.sha256):\n",
        "        if size != output.file.size_bytes:\n",
    ),
    mutant(
        "content: a name that leads elsewhere is taken",
        "storage/content.py",
        "regression/test_forged_names.py",
        "        check_name(self.name)\n",
        "",
    ),
    mutant(
        "local store: one that nobody used is not looked through",
        "state/local/storeuse.py",
        f"{_STORES}test_no_change_of_the_file_of_a_store_becomes_a_crash_or_a_wrong_answer",
        "            found = _noted_damage(self.path) or damage_in(self.path)\n",
        "            found = _noted_damage(self.path)\n",
    ),
    mutant(
        "local store: entries are handed out without a look at their sums",
        "state/local/storecheck.py",
        f"{_STORES}test_an_entry_that_is_damaged_while_the_store_is_in_use_is_told_and_the_next_open_begins_anew",
        "    return crc32(stored, crc32(key, WHOLE)) == WHOLE\n",
        "    return bool(stored)\n",
    ),
    mutant(
        "local store: entries that are read together are not summed",
        "state/local/storecheck.py",
        f"{_STORES}test_entries_are_checked_together_and_the_one_that_is_damaged_is_found",
        '        if crc32(b"".join(chain.from_iterable(piece)), WHOLE) != WHOLE:\n',
        "        if not piece:\n",
    ),
    mutant(
        "local store: what is no file is opened",
        "state/local/storeuse.py",
        f"{_STORES}test_a_store_with_something_that_is_no_file_is_set_aside_and_nobody_waits_for_it",
        "            strange = _strange_in(path)\n",
        "            strange = None\n",
    ),
    mutant(
        "local store: a lock file that was cut off stays so",
        "state/local/localstore.py",
        f"{_STORES}test_a_lock_file_that_is_cut_off_while_a_process_has_the_store_open_kills_nobody",
        "        self._mend_lock()\n",
        "",
    ),
    mutant(
        "replies: files that are all gone are taken for published",
        "engine/publish/staging.py",
        "regression/test_staged_replies.py::test_replies_that_were_all_lost_before_they_were_seen_are_missed",
        "        return outputs[0].visible and not (self._entry",
        "        return outputs[0].visible or not (self._entry",
    ),
    mutant(
        "own folders: a link is followed",
        "state/local/ownfolders.py",
        "regression/test_folders_of_others.py",
        "        if not stat.S_ISDIR(path.lstat().st_mode):\n",
        "        if not path.is_dir():\n",
    ),
    mutant(
        "addresses: what an option says is shown",
        "storage/addresses.py",
        "regression/test_no_secrets_in_errors.py::test_an_address_is_shown_without_its_password",
        "    return f\"{scheme}://{base}{_shown_options(options) if mark else ''}\"\n",
        '    return f"{scheme}://{base}{mark}{options}"\n',
    ),
)
