"""Explain an error of Spark, Delta or Kafka in one line: what happened, and what to do."""

import re
import threading
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from oncelake.common.errors import REFUSED
from oncelake.common.spark.launch import how_jvm_ended, jvm_lives

# A pattern for the messages in the chain of causes, and the advice. The first matching pattern counts.
_KNOWN: tuple[tuple[str, str], ...] = (
    ("No space left on device", "the disk is full; free some space and start again, nothing is lost or repeated"),
    (
        r"not a gzip|ZipException|EOFException|Unexpected end of input|incorrect (header|data) check|invalid block|"
        r"crc error|bad block header",
        "a compressed file is broken or incomplete; replace it with a complete one under the same name, then start "
        "again",
    ),
    (
        r"Relative path in absolute URI",
        "a file's name contains a colon, which Hadoop cannot read; rename it, then run oncelake recover with the "
        "name of the stage that reads it, and --accept-loss (only the old name is given up: the file is read under its "
        "new name)",
    ),
    (
        r"the bytes that this batch was planned for are gone",
        "restore the file and start again, or see what to do with: oncelake doctor",
    ),
    (
        r"FileNotFoundException|PATH_NOT_FOUND|FILE_NOT_EXIST|\b(file|path)\b.*does not exist",
        "a file that the batch needs is missing; restore it and start again. If VACUUM removed it from the table that "
        "the stage reads, read that table again: oncelake rebuild, with the stage's name",
    ),
    (
        r"ConcurrentTransactionException|CONCURRENT_TRANSACTION",
        "another instance of this stage wrote the same batch; this one stops and has changed nothing",
    ),
    (
        r"DELTA_CONCURRENT_\w+|Concurrent\w+Exception|(ProtocolChanged|MetadataChanged)Exception",
        "another process changed the table at the same time; nothing of this batch was written. Start again when no "
        "other process writes: the batch is replayed and nothing is lost or repeated",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE",
        "another instance uses the same checkpoint; this one stops and has changed nothing. Only one run at a time may "
        "write a lake. Stop one of them, then run: oncelake doctor",
    ),
    (
        r"mask rule \S+ takes too many steps",
        "nothing of the batch was written. Make the pattern simpler, or its repetitions possessive, as in (?:a|b)*+",
    ),
    (
        r"environment variable \S+ with the key of the mask rules",
        "set it for every process of Spark, also on the executors, and start again",
    ),
    (
        r"StackOverflowError",
        "a regular expression repeats a group on a long line; make the repetition possessive, as in (?:a|b)*+",
    ),
    (
        r"a sum of \w+ is not within the range of|is too (large|small) to store in a Decimal128|"
        r"CAST_OVERFLOW_IN_TABLE_",
        "nothing of the batch was written. Declare the sum with fewer digits after the point, then rebuild the table",
    ),
    (
        r"NoAuthWithAWSException|Unable to load credentials",
        "no credentials for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give "
        "this machine a role",
    ),
    (
        r"awssdk\S*: Unable to execute HTTP request",
        "S3 cannot be reached; check AWS_ENDPOINT_URL, AWS_REGION and the network, then start again: nothing is lost "
        "or repeated",
    ),
    (
        r"UnknownHostException",
        "this host's name has no address; add it to /etc/hosts, or set SPARK_LOCAL_HOSTNAME=localhost",
    ),
    (
        r"Too many open files",
        "the process may open too few files; allow more, for example with ulimit -n 4096, then start again",
    ),
    (
        r"unable to create (new )?native thread|can't start new thread|fork: .*temporarily unavailable|BlockingIOError",
        "the process may have too few threads; allow more, for example with ulimit -u 4096, then start again",
    ),
    (r"File too large", "the process may not write files of this size; allow it with ulimit -f unlimited"),
    (
        r"UnsatisfiedLinkError|failed to map segment",
        "a library cannot be loaded from the directory for temporary files; set TMPDIR to one that is not mounted with "
        "noexec",
    ),
    (
        r"Native memory allocation",
        "nothing is lost or repeated. Give the machine or its container more memory, or the process more addresses "
        "(ulimit -v unlimited), then start again",
    ),
    (
        r"INVALID_DRIVER_MEMORY",
        "set spark.driver_memory to 512m or more, and remove -Xmx from _JAVA_OPTIONS, which overrides it",
    ),
    (
        r"OutOfMemoryError|GC overhead",
        "give Spark more memory (spark.driver_memory) or use smaller batches (max_bytes_per_batch)",
    ),
    (
        r"OffsetOutOfRange|KAFKA_DATA_LOSS|DATA_LOSS|partitions? (are|is) gone|was changed from",
        "Kafka no longer holds the offsets that the batch needs; see the stage's state with: oncelake doctor",
    ),
    (
        r"ArithmeticException: long overflow",
        "a Kafka record has a timestamp that is too large for Spark's own source. oncelake's Java classes can read it: "
        "start Spark with --jars and the file that python -m oncelake.set_up writes; see docs/topics.md",
    ),
    (
        r"kafka.*TimeoutException|BrokerNotAvailable|DisconnectException",
        "Kafka did not answer; start again when Kafka is available",
    ),
    (
        r"AccessDenied|Permission denied|Read-only file system|AuthorizationException",
        "the process has no permission to read or write there; grant it",
    ),
)
_MISSING = re.compile(r"FileNotFoundException|PATH_NOT_FOUND|FILE_NOT_EXIST")
_DATA_FILE = re.compile(r"(?:file:)?(?://)?(?P<path>/[^\n]*?\.parquet)\b")
# The end of the last Python traceback in an error of Spark's Python workers: your own function's line, and the error.
_RAISED = re.compile(
    r'PythonException.*File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n(?:    [^\n]*\n)*(?P<error>\w[^\n]*)',
    re.DOTALL,
)
_OWN_CODE = "nothing of this batch was written. Correct the function, then start again: the batch is tried again"
# What is known to pass by itself: a disk, a network or a server that does not answer for a while.
_PASSING = (
    r"timed? ?out|connection (was )?(reset|refused|closed|lost)|broken pipe|Input/output error|temporarily unavailable|"
    r"SlowDown|Service ?Unavailable|Too Many Requests|Stale file handle"
)
# What the system does to a process when the memory of the machine, or of a container, runs out.
_BY_THE_SYSTEM = "SIGKILL"
_KILLED = (
    "nothing is lost or repeated. If nobody killed it, the memory of the machine or its container ran out: give it "
    "more, or lower spark.driver_memory, then start again"
)
_JVM_ENDED = (
    "nothing is lost or repeated. If it comes again, give the machine more memory, or change spark.driver_memory; -v "
    "shows Spark's log"
)
# An answer takes milliseconds; a JVM that collects garbage all the time may still give one.
SECONDS_TO_ANSWER = 20.0
_CAUSES = 20
_AGAIN = "start again: the batch is replayed and nothing is lost or repeated"
_UNKNOWN = (
    "nothing is lost or repeated. If it comes again, starting again does not help: remove this cause; -v shows all of "
    "the error"
)


def explain(error: BaseException) -> str:
    """Return one line: what happened and what to do."""
    messages = _messages(error) if not jvm_ended(error) else []
    if not messages:  # an error of Java's is asked for its text, and Java gave none
        return _ended(how_jvm_ended())
    refused = _refused(messages)
    messages = messages if refused is None else [refused]
    everything = " ".join(messages)
    raised = _RAISED.search(everything)
    if raised is not None:
        return f"line {raised['line']} of {raised['file']} raised {_first_line(raised['error'])}; {_OWN_CODE}"
    for pattern, advice in _KNOWN:
        if re.search(pattern, everything, re.IGNORECASE):
            return f"{_shortest(messages, pattern)}; {advice}"
    if refused is not None:
        return refused
    advice = _AGAIN if re.search(_PASSING, everything, re.IGNORECASE) else _UNKNOWN  # guard: retry-only-passing-causes
    return f"{_first_line(messages[-1])}; {advice}"


def cause_of(error: BaseException) -> str:
    """Return what happened, without what to do."""
    return explain(error).split("; ")[0]


def _ended(how: str) -> str:
    known = (advice for pattern, advice in _KNOWN if re.search(pattern, how, re.IGNORECASE))
    return f"Spark's JVM ended ({how}); {next(known, _KILLED if _BY_THE_SYSTEM in how else _JVM_ENDED)}"


def missing_file(error: BaseException) -> str | None:
    """Return the path of a file that Spark did not find; None if the error has another cause."""
    messages = [text for text in _messages(error) if _MISSING.search(text)]
    paths = [match["path"] for text in messages for match in _DATA_FILE.finditer(text)]
    return paths[0] if paths else None


def jvm_ended(error: BaseException) -> bool:
    """Return True if an error shows that Spark's JVM has ended.

    If the JVM ends during a call, the call has no answer: py4j then raises a bare Py4JError without Java's stack trace.
    """
    if isinstance(error, Py4JNetworkError):
        return True
    if isinstance(error, ConnectionError):  # of a call to the JVM, or to another server
        return not jvm_lives()
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def _messages(error: BaseException) -> list[str]:
    """Return the messages along the chain of causes, the outermost first; none if Java does not give them in time.

    The text of an error of Java's is kept by the JVM, which may have ended, or be stuck.
    """
    messages: list[str] = []
    asking = threading.Thread(target=_ask, args=(error, messages), daemon=True)
    asking.start()
    asking.join(SECONDS_TO_ANSWER)  # guard: wait-for-java-error-bounded
    return [*messages]


def _ask(error: BaseException, messages: list[str]) -> None:
    with suppress(Py4JError, AttributeError, OSError):
        messages.append(f"{type(error).__name__}: {error}")
        cause: Any = (
            getattr(error, "java_exception", None) or getattr(error, "_origin", None) or getattr(error, "_cause", None)
        )
        while cause is not None and len(messages) <= _CAUSES:
            messages.append(str(cause.toString()))
            cause = cause.getCause()


def _refused(messages: list[str]) -> str | None:
    """Return the error of our own that Python answered to Java; None if Java failed by itself."""
    answers = (text.partition(REFUSED)[2].splitlines()[0] for text in messages if REFUSED in text)
    return min(answers, key=len, default=None)  # Spark adds a code to the text of its cause


def _shortest(messages: list[str], pattern: str) -> str:
    """Return the first line of the shortest matching message, with the file's name if another message has it."""
    first = [text for text in messages if re.search(pattern, _first_line(text), re.IGNORECASE)]
    fitting = first or [text for text in messages if re.search(pattern, text, re.IGNORECASE)]
    naming = [match[0] for text in messages if (match := re.search(r"while reading file \S+", text))]
    short = min((_first_line(text) for text in fitting or messages), key=len)
    return f"{short} {naming[0].rstrip('.')}" if naming else short


def _first_line(text: str, limit: int = 300) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
