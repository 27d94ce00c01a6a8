from __future__ import annotations

import msgspec
import pytest

from millpond.checkpoint.records.offers import (
    Batch,
    BoundedRun,
    Evolved,
    Forked,
    Loaded,
    Lost,
    Offer,
    Rescaled,
    Ticked,
    sources_of,
)
from millpond.errors import EpochError

EACH = (
    *(Batch("q", 3, ("a", "b")), BoundedRun("june", ("a",)), Ticked(), Rescaled(4), Evolved("0" * 16)),
    *(Loaded("films"), Lost(), Forked("12345678-1234-4234-8234-123456789abc")),
)


@pytest.mark.parametrize("offer", EACH, ids=lambda offer: type(offer).__name__)
def test_an_offer_survives_its_bytes_and_is_told_in_words(offer):
    assert msgspec.json.decode(msgspec.json.encode(offer), type=Offer) == offer
    assert str(offer)


def test_offers_of_two_kinds_are_never_equal():
    assert len({*EACH, Loaded("june"), BoundedRun("films")}) == len(EACH) + 2


def test_only_offers_with_rows_have_feeds():
    assert [sources_of(offer) for offer in EACH] == [("a", "b"), ("a",), *[()] * 6]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *((Batch, ("", 0)), (Batch, ("q", -1)), (BoundedRun, ("",)), (Loaded, ("",))),
        *((Rescaled, (0,)), (Rescaled, (-1,)), (Rescaled, (100_000,)), (Evolved, ("",)), (Evolved, ("G" * 16,))),
    ],
)
def test_an_offer_that_makes_no_sense_is_not_born(kind, given):
    with pytest.raises(EpochError) as caught:
        kind(*given)
    assert caught.value.code == "MP412"
