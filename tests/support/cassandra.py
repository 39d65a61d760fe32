"""Start a real Cassandra for tests: one node on this machine, from Maven artifacts with Java alone."""

import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from oncelake.common.spark.jars import resolve
from oncelake.common.spark.java import java_command
from oncelake.lab.demo.server import free_port

# 5.0 is the first version that runs on Java 17
CASSANDRA = (("org.apache.cassandra", "cassandra-all", "5.0.5"),)
KEYSPACE = "oncelake"
# what Cassandra's own conf/jvm17-server.options opens
OPENS = (
    *(f"java.base/java.{each}" for each in ("io", "lang", "lang.module", "lang.reflect", "math", "net", "nio")),
    *(f"java.base/java.{each}" for each in ("nio.charset", "nio.file.spi", "util", "util.concurrent")),
    *(f"java.base/java.util.concurrent.{each}" for each in ("atomic", "locks")),
    *(f"java.base/jdk.internal.{each}" for each in ("loader", "math", "module", "ref", "reflect", "util.jar", "vm")),
    *("java.base/sun.nio.ch", "java.base/sun.nio.fs", "jdk.management/com.sun.management.internal"),
    "java.desktop/com.sun.beans.introspect",
)
EXPORTS = (
    *("java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/jdk.internal.perf"),
    *("java.base/sun.nio.ch", "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.base/java.lang.ref"),
    *("java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql"),
)
_PATIENCE = 180.0


class CassandraNode:
    """A node with its data in a directory, on free ports of 127.0.0.1, and an empty keyspace.

    Attributes:
        port: the port for clients.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._configure()
        try:
            self.start()
            self._make_keyspace()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the sink."""
        return {"hosts": "127.0.0.1", "port": str(self.port), "keyspace": KEYSPACE}

    def start(self) -> None:
        """Start the node, and wait until it takes clients."""
        jars = resolve(CASSANDRA, transitive=True)
        agent = next(jar for jar in jars.split(":") if "jamm" in jar)
        at = self.directory
        with (at / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(java_command(), "-Xmx512m", f"-javaagent:{agent}", "-Djdk.attach.allowAttachSelf=true"),
                    *(f"--add-opens={each}=ALL-UNNAMED" for each in OPENS),
                    *(f"--add-exports={export}=ALL-UNNAMED" for export in EXPORTS),
                    *(f"-Dcassandra.config=file://{at}/cassandra.yaml", f"-Dcassandra.storagedir={at}"),
                    *("-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=100"),
                    *("-Dcassandra-foreground=yes", f"-Dlogback.configurationFile={at}/logback.xml"),
                    *("-cp", jars, "org.apache.cassandra.service.CassandraDaemon"),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (at / "output").read_text()[-3000:]
            assert time.monotonic() < until, (at / "output").read_text()[-3000:]
            time.sleep(0.2)

    def stop(self) -> None:
        """Kill the node; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _make_keyspace(self) -> None:
        from cassandra.cluster import Cluster  # noqa: PLC0415 - the extra `cassandra`

        with Cluster(["127.0.0.1"], port=self.port) as cluster, cluster.connect() as session:
            replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")

    def _configure(self) -> None:
        at, storage = self.directory, free_port()
        (at / "cassandra.yaml").write_text(
            f"""
cluster_name: oncelake
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: batch
commitlog_directory: {at}/commitlog
data_file_directories: [{at}/data]
saved_caches_directory: {at}/saved_caches
hints_directory: {at}/hints
cdc_raw_directory: {at}/cdc
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {self.port}
storage_port: {storage}
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage}"
"""
        )
        (at / "logback.xml").write_text(
            '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
            '<pattern>%level %msg%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="out"/></root>'
            "</configuration>"
        )
