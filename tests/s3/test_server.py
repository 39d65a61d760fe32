"""The S3 API of the tests keeps what a lake needs of a store: a put if absent, also of many at once, is one step."""

from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.s3_server import BUCKET, Server


def put(server: Server, content: bytes, key: str = "a", **headers: str) -> int:
    """Put one object, and return the status of the answer."""
    request = Request(f"{server.endpoint}/{BUCKET}/{key}", data=content, headers=headers, method="PUT")
    try:
        with urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_of_many_puts_if_absent_one_wins() -> None:
    with Server() as server, ThreadPoolExecutor(8) as pool:
        statuses = pool.map(lambda number: put(server, b"%d" % number, **{"If-None-Match": "*"}), range(40))
        assert sorted(statuses) == [200, *[412] * 39]
        assert server.names() == ["a"]


def test_a_put_replaces_only_the_object_with_the_given_tag() -> None:
    with Server() as server:
        assert put(server, b"one", **{"If-Match": "none"}) == 404
        assert put(server, b"one") == 200
        with urlopen(f"{server.endpoint}/{BUCKET}/a", timeout=10) as answer:
            tag = answer.headers["ETag"]
        assert put(server, b"two", **{"If-Match": tag}) == 200
        assert put(server, b"three", **{"If-Match": tag}) == 412


def test_a_client_sees_only_its_own_leases_if_a_test_wants_that() -> None:
    key = "lake/_oncelake/lease/1"
    one, two = ({"Authorization": f"AWS4 Credential={name}/x", "If-None-Match": "*"} for name in ("one", "two"))
    with Server(apart=True) as server:
        assert [put(server, b"", key, **headers) for headers in (one, two, one)] == [200, 200, 412]
        asked = f"{server.endpoint}/{BUCKET}?list-type=2&prefix=lake/_oncelake/lease/"
        with urlopen(Request(asked, headers=one), timeout=10) as answer:
            assert answer.read().count(f"<Key>{key}</Key>".encode()) == 1
