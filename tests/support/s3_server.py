"""An S3 API for tests: one bucket in the memory of this process, on a free port of 127.0.0.1.

It has what Hadoop's S3A, Delta Lake and delta-rs ask for, and keeps the two promises of Amazon's S3 that a lake needs:
a list shows each object that was put before it, and a conditional put is one step. It checks no signature.
"""

import hashlib
import re
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree.ElementTree import fromstring
from xml.sax.saxutils import escape

BUCKET = "lake"
_LEASES = "/_oncelake/"
_MOST = 1000  # names in one answer to a list


@dataclass(frozen=True)
class _Object:
    content: bytes
    metadata: dict[str, str]
    time: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class Request:
    """A request that was answered.

    Attributes:
        client: what the client calls itself.
        method: its method.
        key: the object's key; of a list, the prefix.
        is_list: whether it is a list.
        status: that of the answer.
        began: when it came, on the monotonic clock.
        ended: when its answer was sent.
    """

    client: str
    method: str
    key: str
    is_list: bool
    status: int
    began: float
    ended: float


def rounds(requests: Sequence[Request]) -> int:
    """Return how many of the requests follow one another: the most of which no two overlap."""
    count, end = 0, 0.0
    for request in sorted(requests, key=lambda request: request.ended):
        if request.began >= end:
            count, end = count + 1, request.ended
    return count


class Server:
    """A bucket that ends with the block.

    Attributes:
        honours: whether it refuses a put whose condition does not hold, as Amazon's S3 does.
        loses: the answers to puts that get lost after their effect: called with the key of each put.
        refuses: the requests that it refuses, with the status and the code of the error, and None for the others:
            called with the method and the key of each request.
        apart: whether each client, by its access key, sees only its own leases, so that none keeps drivers apart.
        delay: the seconds that each answer takes longer.
        requests: the requests so far, in the order of their answers.
        endpoint: its address.
    """

    def __init__(
        self,
        *,
        honours: bool = True,
        loses: Callable[[str], bool] = lambda _: False,
        refuses: Callable[[str, str], tuple[int, str] | None] = lambda *_: None,
        apart: bool = False,
        delay: float = 0.0,
    ) -> None:
        self.honours = honours
        self.loses = loses
        self.refuses = refuses
        self.apart = apart
        self.delay = delay
        self.requests = list[Request]()
        self._objects = dict[str, _Object]()
        self._names = list[str]()  # sorted
        self._uploads = dict[str, dict[int, bytes]]()
        self._lock = threading.Lock()
        self._http = _Http(self)
        self.endpoint = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def names(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with a prefix."""
        with self._lock:
            return [name for name in self._names[bisect_left(self._names, prefix) :] if name.startswith(prefix)]

    def get(self, key: str) -> _Object | None:
        """Return an object; None if there is none."""
        with self._lock:
            return self._objects.get(key)

    def put(self, key: str, content: bytes, metadata: dict[str, str], *, absent: bool, tag: str | None) -> int:
        """Put an object if the condition holds, in one step; return the status of the answer."""
        with self._lock:
            before = self._objects.get(key)
            if absent and before is not None and self.honours:
                return 412
            if tag is not None and before is None:
                return 404
            if tag is not None and before is not None and _tag(before.content) != tag:
                return 412
            if before is None:
                insort(self._names, key)
            self._objects[key] = _Object(content, metadata)
            return 200

    def delete(self, prefix: str) -> None:
        """Delete the objects whose keys begin with a prefix."""
        for name in self.names(prefix):
            self.remove(name)

    def remove(self, key: str) -> None:
        """Delete an object, if there is one."""
        with self._lock:
            if self._objects.pop(key, None) is not None:
                self._names.remove(key)

    def begin(self) -> str:
        """Begin an upload in parts; return its ID."""
        with self._lock:
            self._uploads[upload := f"upload-{len(self._uploads)}"] = {}
            return upload

    def parts(self, upload: str) -> dict[int, bytes]:
        """Return the parts of an upload, by their number."""
        return self._uploads[upload]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, bucket: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket

    def handle_error(self, *_: object) -> None:
        """Print nothing for a client that was killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_PUT(self) -> None:
        self._handle()

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT  # noqa: N815 - the names that http.server asks for

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _handle(self) -> None:
        began = time.monotonic()
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).removeprefix("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        content = self._content()
        refused = self._server.refuses(self.command, key)
        if refused is not None:
            answer = _error(*refused)
        else:
            answer = self._effect(self._own(key), query, content) if bucket == BUCKET else _error(404, "NoSuchBucket")
        time.sleep(self._server.delay)
        client, asked, is_list = self.headers.get("User-Agent", ""), key or query.get("prefix", ""), "prefix" in query
        self._server.requests.append(
            Request(client, self.command, asked, is_list, answer.status, began, time.monotonic())
        )
        if refused is None and self.command == "PUT" and self._server.loses(key):
            self.close_connection = True
            return
        self._send(answer)

    def _own(self, key: str) -> str:
        """Return the key under which an object is kept."""
        return f"{self._client}{key}" if self._server.apart and _LEASES in key else key

    @property
    def _client(self) -> str:
        """Return what the keys of a client's own objects begin with."""
        asked = re.search(r"Credential=([^/]+)", self.headers.get("Authorization", ""))
        return f"of-{asked[1]}/" if asked else ""

    @property
    def _server(self) -> "Server":
        assert isinstance(self.server, _Http)
        return self.server.bucket

    def _content(self) -> bytes:
        """Return what was sent, taken out of the parts in which Amazon's SDK wraps it."""
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.headers.get("x-amz-content-sha256", "").startswith("STREAMING"):
            return sent
        content, at = bytearray(), 0
        while at < len(sent):
            end = sent.index(b"\r\n", at)
            size = int(sent[at:end].partition(b";")[0], 16)
            if not size:
                break
            content += sent[end + 2 : end + 2 + size]
            at = end + 2 + size + 2
        return bytes(content)

    def _effect(self, key: str, query: dict[str, str], content: bytes) -> "_Answer":
        """Do what a request asks for."""
        if not key:
            return self._of_bucket(query, content)
        if self.command == "PUT":
            return self._put(key, query, content)
        if self.command == "POST":
            return self._upload(key, query)
        if self.command == "DELETE":
            self._server.remove(key)
            return _Answer(204)
        stored = self._server.get(key)
        return _error(404, "NoSuchKey") if stored is None else self._read(stored)

    def _of_bucket(self, query: dict[str, str], content: bytes) -> "_Answer":
        if self.command == "POST" and "delete" in query:
            for name in fromstring(content).iter():
                if name.tag.rpartition("}")[2] == "Key":
                    self._server.remove(name.text or "")
            return _xml("DeleteResult", "")
        if "uploads" in query:
            return _xml("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>")
        return self._list(query) if "prefix" in query or "list-type" in query else _Answer()

    def _put(self, key: str, query: dict[str, str], content: bytes) -> "_Answer":
        metadata = {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}
        if "uploadId" in query:
            self._server.parts(query["uploadId"])[int(query["partNumber"])] = content
            return _Answer(headers={"ETag": f'"{query["partNumber"]}"'})
        copied = self.headers.get("x-amz-copy-source")
        if copied is not None:
            source = self._server.get(unquote(copied).removeprefix("/").partition("/")[2])
            if source is None:
                return _error(404, "NoSuchKey")
            content, metadata = source.content, metadata or source.metadata
        answer = self._conditional(key, content, metadata)
        return _xml("CopyObjectResult", "<ETag>&quot;copy&quot;</ETag>") if copied is not None else answer

    def _upload(self, key: str, query: dict[str, str]) -> "_Answer":
        if "uploads" in query:
            begun = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{self._server.begin()}</UploadId>"
            return _xml("InitiateMultipartUploadResult", begun)
        content = b"".join(part for _, part in sorted(self._server.parts(query["uploadId"]).items()))
        answer = self._conditional(key, content, {})
        done = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><ETag>&quot;parts&quot;</ETag>"
        return answer if answer.status != 200 else _xml("CompleteMultipartUploadResult", done)

    def _conditional(self, key: str, content: bytes, metadata: dict[str, str]) -> "_Answer":
        tag = self.headers.get("If-Match")
        absent = self.headers.get("If-None-Match") == "*"
        status = self._server.put(key, content, metadata, absent=absent, tag=tag.strip('"') if tag else None)
        if status != 200:
            return _error(status, "PreconditionFailed" if status == 412 else "NoSuchKey")
        return _Answer(headers={"ETag": f'"{_tag(content)}"'})

    def _read(self, stored: "_Object") -> "_Answer":
        headers = {
            **stored.metadata,
            "ETag": f'"{_tag(stored.content)}"',
            "Last-Modified": format_datetime(stored.time, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        size = len(stored.content)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return _Answer(200, stored.content, headers)
        first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
        last = min(int(asked[2]), size - 1) if asked[1] and asked[2] else size - 1
        if first >= size:
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return _Answer(206, stored.content[first : last + 1], headers)

    def _list(self, query: dict[str, str]) -> "_Answer":
        prefix, delimiter = self._own(query["prefix"]), query.get("delimiter", "")
        after = max(query.get(name, "") for name in ("start-after", "continuation-token", "marker"))
        most = min(int(query.get("max-keys", _MOST)), _MOST)
        entries = dict[str, str]()  # by name: its XML
        last = ""
        names = self._server.names(prefix)
        for name in names[bisect_left(names, after) if after else 0 :]:
            group, slash, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            entry = f"{prefix}{group}{delimiter}" if slash else name
            if entry in entries or (after and (name == after or (slash and entry <= after))):
                continue
            if len(entries) == most:
                last = max(entries)
                break
            entries[entry] = self._entry(entry, query, of_group=bool(slash))
        end = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
        counted = f"<KeyCount>{len(entries)}</KeyCount><IsTruncated>{str(bool(last)).lower()}</IsTruncated>"
        coded = "<EncodingType>url</EncodingType>" if query.get("encoding-type") == "url" else ""
        return _xml("ListBucketResult", f"<Name>{BUCKET}</Name>{counted}{coded}{end}{''.join(entries.values())}")

    def _entry(self, name: str, query: dict[str, str], *, of_group: bool) -> str:
        shown = name.removeprefix(self._client) if self._server.apart else name
        text = quote(shown) if query.get("encoding-type") == "url" else escape(shown)
        if of_group:
            return f"<CommonPrefixes><Prefix>{text}</Prefix></CommonPrefixes>"
        stored = self._server.get(name)
        if stored is None:
            return ""
        return (
            f"<Contents><Key>{text}</Key><LastModified>{stored.time:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>&quot;{_tag(stored.content)}&quot;</ETag><Size>{len(stored.content)}</Size></Contents>"
        )

    def _send(self, answer: "_Answer") -> None:
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)


@dataclass(frozen=True)
class _Answer:
    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def _xml(name: str, content: str, status: int = 200) -> _Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{content}</{name}>'
    return _Answer(status, text.encode(), {"Content-Type": "application/xml"})


def _error(status: int, code: str) -> _Answer:
    return _xml("Error", f"<Code>{code}</Code><Message>{code}</Message>", status)


def _tag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
