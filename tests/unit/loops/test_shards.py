"""Shards of one context that post to each other: the same bits as in one place, whoever comes first."""

from __future__ import annotations

import pytest

from tests.programs.sharded import check_shards, check_vertices


@pytest.mark.parametrize("seed", range(24))
def test_shards_that_post_give_the_bits_of_one_place(seed):
    check_shards(seed)


@pytest.mark.parametrize("seed", range(20))
def test_vertices_have_all_their_edges_in_their_shard(seed):
    check_vertices(seed)
