"""Close what Spark leaves open when a streaming query ends: a socket and a thread of this process per query."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from tests.support.spark_handles import callback_server


@contextmanager
def callbacks_closed(spark: SparkSession) -> Iterator[None]:
    """Close the connections on which queries started in this block called Python.

    A query's thread in the JVM opens one, and neither side closes it when the thread ends: a thousand queries in one
    process reach the limit of open files of many systems. Older connections stay: a listener may need its own.
    """
    server = callback_server(spark)
    before = set(server.connections) if server is not None else set()
    try:
        yield
    finally:
        server = callback_server(spark)
        for connection in set(server.connections) - before if server is not None else ():
            with suppress(OSError):  # it is closed already
                connection.socket.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
