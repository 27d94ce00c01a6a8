"""Shards of one context that post to each other: the same bits as in one place, whoever comes first."""

from __future__ import annotations

import pytest

from tests.programs.sharded import check_shards


@pytest.mark.parametrize("seed", range(24))
def test_shards_that_post_give_the_bits_of_one_place(seed):
    check_shards(seed)
