"""Doors tried with what nobody wrote down: names that lead elsewhere, and passwords anywhere in an address.

The seed is printed; `MILLPOND_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import random
import re
import shutil
from urllib.parse import quote, unquote

import pytest

from millpond.checkpoint.records.manifest import FileRef, decode_manifest, manifest_name
from millpond.errors import MillpondError
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from millpond.storage.addresses import shown_url
from millpond.storage.contract import is_name
from millpond.storage.open import open_storage
from tests.programs.keyed import fresh_seed
from tests.regression.test_forged_names import set_output, tampered
from tests.regression.test_no_secrets_in_errors import PW, told_by
from tests.unit.engine.publish.test_publish import Stage

pytestmark = pytest.mark.campaign

NAMES, MANIFESTS, ADDRESSES = 50_000, 1_500, 20_000
STEPS = ("..", ".", "victim", "sub", "~", "", "a" * 300, "%2e%2e", "\u2024\u2024", "x\0y", "con", " ", "-", "\n", "é")
BETWEEN = ("/", "//", "\\", "/./", "/../", "\0", ":", "")
SCHEMES = (
    "redis",
    "rediss",
    "redi",
    "s3",
    "S3",
    "s3a",
    "gs",
    "az",
    "file",
    "log",
    "rocksdb",
    "memory",
    "spread",
    "http",
    "",
)
COLONS = ("://", ":/", ":", "//", ":///", " ://", ";//", "")
USERS = (f"user:{PW}@", f":{PW}@", f"{PW}@", f"u:a/{PW}@", f"u:a?{PW}@", f"u:a#{PW}@", f"u:a@{PW}@", "")
HOSTS = ("localhost:1", "bucket", "/data", "")
PATHS = ("/0/recs", "/recs", "", "/0/recs/", "//", f"/password={PW}")
QUERIES = (f"?password={PW}", f"?token={PW}&x=1", f"?endpoint=http://u:{PW}@localhost:1", f"&key={PW}", f";sig={PW}")
QUERIES += (f"?durability={PW}", f"#{PW}", f"?{PW}", "")
FOLDER = re.compile(r"(^|[|=]|://)/[^:@|]*@")
"""A whole path with an @ and no user before it: a folder may be called so."""


@pytest.fixture
def chance():
    return random.Random(fresh_seed())


def name_of(chance):
    """Something that a name in a file could be, mostly one that leads elsewhere."""
    steps = [chance.choice(STEPS) for _ in range(chance.randint(1, 4))]
    text = chance.choice(["", "/", "./", "../"]) + steps[0]
    for step in steps[1:]:
        text += chance.choice(BETWEEN) + step
    return text


def address_of(chance):
    """An address with a password somewhere, mistyped or not."""
    parts = [chance.choice(choices) for choices in (SCHEMES, COLONS, USERS, HOSTS, PATHS, QUERIES)]
    if PW not in "".join(parts):
        parts[2] = USERS[0]
    text = "".join(parts)
    if chance.random() < 0.3:
        # A slip of the finger before the path: in it, nothing tells what was a password from what is a folder.
        at = chance.randrange(len("".join(parts[:4])) + 1)
        text = text[:at] + chance.choice(":/@&;= ") + text[at:]
    kind = chance.random()
    if kind < 0.1:
        return f"spread:///disk1|{text}"
    if kind < 0.2:
        return f"elements:///disk1|ratings={text}"
    return f"near:?kept={quote(text, safe='')}&folder=/x" if kind < 0.25 else text


def publish_forged(work, sink, data):
    work.publish_to({"replies": (sink, work.plan)}, manifest=decode_manifest(data, manifest_name(1)))


def test_no_name_leads_elsewhere(tmp_path, chance):
    inside = tmp_path / "inside"
    for _ in range(NAMES):
        name = name_of(chance)
        if not is_name(name):
            with pytest.raises(MillpondError, match="MP305"):
                FileRef(name, 0, "0" * 64)
            continue
        assert (inside / name).resolve().is_relative_to(inside), name
        assert (inside / name).resolve() != inside, name


def test_no_manifest_deletes_or_moves_what_is_not_its_own(tmp_path, chance):
    for number in range(MANIFESTS):
        place = tmp_path / str(number)
        work = Stage(place / "sink", visible=chance.random() < 0.5)
        victims = [place / "victim", place / "sink" / "victim", place / "sub"]
        for victim in victims:
            victim.write_text("dear")
        sink = parquet(work.root) if chance.random() < 0.5 else memory()
        root = chance.choice([None, None, str(place), str(place / "sink"), str(tmp_path), "..", ""])
        name = name_of(chance)
        with pytest.raises(MillpondError) as caught:
            publish_forged(work, sink, tampered(work.manifest, set_output(name, root)))
        assert caught.value.code in {"MP305", "MP312"}, (name, root)
        assert all(victim.read_text() == "dear" for victim in victims), (name, root)
        shutil.rmtree(place)


def test_no_address_tells_its_password(tmp_path, monkeypatch, chance):
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr("millpond.storage.backends.objects.PUT_PAUSE_S", 0.0)
    for _ in range(ADDRESSES):
        address = address_of(chance)
        if PW not in address or FOLDER.search(unquote(address)):
            continue
        assert PW not in shown_url(address), address
        if not address.lower().startswith(("s3", "gs", "az", "redis")):
            # Those would be called, and waited for. What is taken for the path of a folder has no password.
            told = told_by(open_storage, address)
            assert PW not in told or not told.startswith("MP"), (address, told)
