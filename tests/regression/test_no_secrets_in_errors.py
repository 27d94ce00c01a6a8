"""No password is ever shown, wherever in an address it stands, and however the address is mistyped."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from millpond.checkpoint.forking import fork
from millpond.cli import app
from millpond.engine.publish.publish import _blaming
from millpond.errors import MillpondError
from millpond.sinks.parquet import parquet
from millpond.sinks.protocol import Sink, SinkDescription
from millpond.spark.streaming.workroot import _folder
from millpond.storage.addresses import identity_of, scrubbed, shown_url
from millpond.storage.backends.objects import ObjectStorage, read_place
from millpond.storage.open import folder_of, open_storage, urlsplit

PW = "hunter2"

ADDRESSES = (
    f"redis://user:{PW}@localhost:1/0/recs",
    f"redis://:{PW}@localhost:1/0/recs",
    f"redis://{PW}@localhost:1/0/recs",
    f"rediss://user:{PW}@localhost:1/0/recs",
    f"redis://user:p@{PW}@localhost:1/0/recs",
    f"redis://user:p/{PW}@localhost:1/0/recs",
    f"redis://user:p?{PW}@localhost:1/0/recs",
    f"redis://user:{PW}?x@localhost:1/0/recs",
    f"redis://{PW}?x@localhost:1/0/recs",
    f"redis://user:p#{PW}@localhost:1/0/recs",
    f"redis://user:{PW}/0/recs",
    f"redis://localhost:1/0/recs?password={PW}",
    f"redis://localhost:1/0/recs?token={PW}",
    f"redis://localhost:1/0/recs?durability={PW}",
    f"redis://localhost:1/0/recs&password={PW}",
    f"redis://localhost:1/0/recs;password={PW}",
    f"redis://localhost:1/0/password={PW}",
    f"redis://localhost:1/0/recs#{PW}",
    f"redis:/user:{PW}@localhost:1/0/recs",
    f"redis:user:{PW}@localhost:1/0/recs",
    f"redis:///user:{PW}@localhost/0/recs",
    f"redi://user:{PW}@localhost:1/0/recs",
    f"redis//user:{PW}@localhost:1/0/recs",
    f"redis;//user:{PW}@localhost:1/0/recs",
    f"redis ://user:{PW}@localhost:1/0/recs",
    f"1redis://user:{PW}@localhost:1/0/recs",
    f"://user:{PW}@localhost:1/0/recs",
    f"user:{PW}@localhost:1/0/recs",
    f"{PW}@localhost:1/0/recs",
    f"//user:{PW}@localhost:1/0/recs",
    f"s3://bucket/recs?endpoint=http://user:{PW}@localhost:1",
    f"s3://bucket/recs?endpoint=http://user:{PW}@localhost:1&region={PW}",
    f"s3://bucket/recs?password={PW}",
    f"s3://bucket/recs?aws_secret_access_key={PW}",
    f"s3://bucket/recs?{PW}",
    f"s3://KEY:{PW}@bucket/recs",
    f"s3://KEY:a/{PW}@bucket/recs",
    f"s3:/KEY:{PW}@bucket/recs",
    f"S3://KEY:{PW}@bucket/recs",
    f"s3a://KEY:{PW}@bucket/recs",
    f"az://container/recs?sig={PW}&account=a",
    f"az://container/recs?account=a&endpoint=https://u:{PW}@localhost:1",
    f"gs://bucket/recs?endpoint=http://u:{PW}@localhost:1",
    f"gs://bucket/recs?token={PW}",
    f"file://user:{PW}@host/data/recs",
    f"file:///data/recs?password={PW}",
    f"log://user:{PW}@host/data/recs",
    f"log:///data/recs?token={PW}",
    f"rocksdb://user:{PW}@host/data",
    f"rocksdb:///data/recs?owner={PW}",
    f"memory://recs?password={PW}",
    f"memory://u:{PW}@recs",
    f"perkey+faithful://u:{PW}@h/recs?token={PW}",
    f"spread://2*/disk1|redis://user:{PW}@localhost:1/0/recs",
    f"spread://0*/disk1|redis://user:{PW}@localhost:1/0/recs",
    f"spread:///disk1|s3://b/r?endpoint=http://u:{PW}@localhost:1",
    f"spread://redis://user:{PW}@localhost:1/0/a|redis://user:{PW}@localhost:1/0/a",
    f"elements:///disk1|ratings=redis://user:{PW}@localhost:1/0/recs",
    f"elements:///disk1|ratings=redi://user:{PW}@localhost:1/0/recs",
    f"elements://|redis://user:{PW}@localhost:1/0/recs",
    f"near:?kept=redis%3A%2F%2Fuser%3A{PW}%40localhost%3A1%2F0%2Frecs&folder=/x",
    f"near:?kept=s3%3A%2F%2Fb%2Fr%3Ftoken%3D{PW}&folder=/x",
    f"redis://localhost:1/0/%3Fpassword%3D{PW}",
    f"redis://localhost:1/0/%253Fpassword%253D{PW}",
    f"s3://bucket/u%3A{PW}%40h",
    f"hdfs://host/recs%3Ftoken%3D{PW}",
    f"redis%3A%2F%2Fuser%3A{PW}%40localhost%3A1%2F0%2Frecs",
    f"user%3A{PW}%40localhost/recs",
    f"spread://redis%3A%2F%2Fu%3A{PW}%40localhost|/disk1",
    f"elements://u%3A{PW}%40localhost/recs|/disk1",
    f"redis://localhost:1/0/recs,AccountKey={PW}",
    f"s3://bucket/recs/pass:{PW}",
    f"gs://bucket/recs,auth={PW}",
    f"jdbc:postgresql://u:{PW}@h/db",
    f"http://u:{PW}@h/x?token={PW}",
)


def everything_of(error):
    """All that a person could see of an error: its text, its parts, what caused it."""
    shown = "".join(traceback.format_exception(error, chain=True))
    # Python shows the line of the test that called, which is not the package's doing.
    lines = [line for line in shown.splitlines() if __file__ not in line and "ADDRESSES" not in line]
    return "\n".join([*lines, repr(error), str(error), str(error.found), str(error.expected), str(error.hint)])


def told_by(make, address):
    """What a person could see of what was made of an address, or of the error."""
    try:
        return repr(make(address))
    except MillpondError as error:
        return f"{error.code} {everything_of(error)}"


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_shown_without_its_password(address):
    assert PW not in shown_url(address)
    assert PW not in ascii(shown_url(address))


@pytest.mark.parametrize(
    "address",
    [f"/user:{PW}@localhost:1/0/recs", f"./user:a/{PW}@localhost/recs", f"spread:///u:a@{PW}@localhost:1/0/recs/?x"],
)
def test_a_path_that_may_have_lost_its_scheme_is_not_shown(address):
    assert PW not in shown_url(address)
    assert shown_url("/data/mail@home/recs") == "/data/mail@home/recs"


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_of_opening_an_address_tells_its_password(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr("millpond.storage.backends.objects.PUT_PAUSE_S", 0.0)
    assert PW not in told_by(open_storage, address)
    assert list(tmp_path.iterdir()) == [], "nothing is made of a mistyped address"


@pytest.mark.parametrize(
    "address", [address for address in ADDRESSES if not address.startswith(("s3", "gs", "az", "S3"))]
)
def test_no_command_and_no_fork_tells_a_password(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["state", "ls", address, "--json"])
    assert PW not in result.output.replace(json.dumps(address), "")
    with pytest.raises(MillpondError) as caught:
        fork(address, tmp_path / "new")
    assert PW not in everything_of(caught.value)


MISTYPED = (
    *(f"{scheme}:user:{PW}@host/p" for scheme in ("s3", "gs", "file", "log", "perkey", "abfss")),
    *(f"{scheme}:/user:{PW}@host/p" for scheme in ("s3", " s3", "3s", "s 3")),
    *(f"file://{PW}@host/p", f"file://host/p?password={PW}", f"file:///p?token={PW}", f"file:///p#{PW}"),
    *(f"spread://file:///a,s3://u:{PW}@b", f"elements:///e?a=s3://u:{PW}@b", f"s3://KEY:{PW}@bucket/p"),
)


@pytest.mark.parametrize("address", MISTYPED)
def test_no_folder_is_made_of_a_mistyped_address(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for make in (parquet, open_storage):
        if make is open_storage and address.startswith("s3://"):
            continue
        with pytest.raises(MillpondError) as caught:
            make(address)
        assert PW not in everything_of(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_sink_is_shown_without_what_looks_like_a_password(tmp_path):
    sink = parquet(tmp_path / f"u:{PW}@h")
    assert PW not in repr(sink) + sink.describe().place
    assert parquet("file:///data/recs") == parquet("/data/recs")
    assert parquet("./a:b") == parquet(Path("a:b"))


class Telling(Sink):
    def describe(self):
        return SinkDescription(f"postgres://u:{PW}@host/db?sslkey={PW}")

    def publish(self, token, staged):
        raise OSError(f"could not connect to postgres://u:{PW}@host/db?password={PW}")


def test_what_a_sink_of_ones_own_says_is_shown_without_its_password():
    token = SimpleNamespace(epoch=3, sink="go")
    with pytest.raises(MillpondError) as caught, _blaming(Telling(), token):
        Telling().publish(token, None)
    assert caught.value.code == "MP605"
    assert PW not in str(caught.value)
    assert "postgres://***@host/db" in str(caught.value)


@pytest.mark.parametrize("address", ADDRESSES)
def test_neither_a_sink_nor_a_work_folder_tells_a_password(address):
    for make in (parquet, _folder):
        refused = told_by(make, address)
        assert PW not in refused or not refused.startswith("MP")


def test_an_object_store_that_does_not_answer_tells_no_password(monkeypatch):
    pytest.importorskip("obstore")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    parts = urlsplit("s3://bucket/recs")
    place = read_place(parts, {"endpoint": f"http://user:{PW}@localhost:1", "region": PW})
    storage = ObjectStorage(place)
    assert PW not in repr(storage) + repr(place)
    text = f"Generic S3 error: request to http://user:{PW}@localhost:1/bucket/recs?X-Amz-Signature={PW} failed"
    assert PW not in scrubbed(text)


@pytest.mark.parametrize("path", [f"../u:{PW}@h/r", f"/data/u:{PW}@h:1/r", f"./x AccessKey={PW}", f"/x%3Ftoken%3D{PW}"])
def test_a_path_that_looks_like_an_address_is_shown_without_its_password(path):
    assert PW not in shown_url(path) + shown_url(f"spread://{path}|/y") + shown_url(f"elements:///y|a={path}")
    assert PW not in shown_url(f"elements:///y|password={PW}"), "it may as well be an option as an element's folder"


def test_what_is_harmless_is_shown():
    plain = (
        "/data/recs",
        "/data/a@b/recs",
        "data/recs",
        "./x y/recs",
        "/data/100%/key=5/a%20b",
        "file:///data/recs",
        "log:///data/dt=2026/recs",
        "redis://host:6379/0/recs",
        "rediss://10.0.0.1:6379/0/recs",
        "redis://[::1]:6379/0/recs",
        "s3://bucket/a/b",
        "spread://2*/disk1/recs|1*s3://bucket/recs",
        "elements:///data/recs|ratings,films=s3://bucket/recs|clicks=log:///fast/recs",
    )
    assert [shown_url(address) for address in plain] == list(plain)
    assert shown_url("s3://b/r?endpoint=http://u:p@h&region=eu") == "s3://b/r?endpoint=***&region=***"
    assert shown_url("redis://u:p@host:1/0/recs") == "redis://***@host:1/0/recs"


def test_paths_with_an_at_or_a_colon_are_still_paths(tmp_path):
    for path in ("/data/a@b", "/data/a:b@c/d", "./a:b@c", "a@b", "data//recs", "recs.v2", "a-b_c/d"):
        assert folder_of(path) is not None, path
    assert identity_of("redis://u:p@h/0/x") == "redis://***@h/0/x"
