"""The stand-in for a workspace answers a plain HTTP client in what the Databricks CLI calls."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.bundle.workspace import Workspace, workspace

FILES = "/Workspace/Users/ada@example.com/files"
UNITY = "/api/2.1/unity-catalog"


@pytest.fixture
def served() -> Iterator[Workspace]:
    with workspace("ada@example.com") as served:
        yield served


def ask(served: Workspace, method: str, path: str, body: Any = None) -> Any:
    """Return the answer of a call, as an object where it is JSON.

    Raises:
        HTTPError: the status of the answer is not 200.
    """
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with urlopen(Request(f"{served.host}{path}", data, method=method)) as answer:
        read = answer.read()
        return json.loads(read) if answer.headers["Content-Type"] == "application/json" else read


def missing(served: Workspace, method: str, path: str, body: Any = None) -> str:
    """Return the message of an answer 404."""
    with pytest.raises(HTTPError) as error:
        ask(served, method, path, body)
    with error.value as answer:
        assert answer.code == 404
        return str(json.load(answer)["message"])


def test_the_user_and_the_workspace_are_named(served: Workspace) -> None:
    assert ask(served, "GET", "/api/2.0/preview/scim/v2/Me")["userName"] == "ada@example.com"
    assert ask(served, "GET", "/.well-known/databricks-config")["oidc_endpoint"] == f"{served.host}/oidc"
    assert ask(served, "GET", f"{UNITY}/current-metastore-assignment")["default_catalog_name"] == "main"
    assert ask(served, "POST", "/telemetry-ext", {"protoLogs": ["one"]})["numProtoSuccess"] == 1


def test_a_file_is_in_a_directory_and_is_read_back_and_deleted_with_it(served: Workspace) -> None:
    path = f"{FILES}/conf/dev%20one.yaml"
    assert "parent folder" in missing(served, "POST", f"/api/2.0/workspace-files/import-file{path}", b"a: 1")
    assert "doesn't exist" in missing(served, "GET", f"/api/2.0/workspace/get-status?path={FILES}")
    ask(served, "POST", "/api/2.0/workspace/mkdirs", {"path": f"{FILES}/conf"})
    ask(served, "POST", f"/api/2.0/workspace-files/import-file{path}?overwrite=true", b"a: 1")
    assert ask(served, "GET", f"/api/2.0/workspace/get-status?path={FILES}")["object_type"] == "DIRECTORY"
    listed = ask(served, "GET", f"/api/2.0/workspace/list?path={FILES}/conf")["objects"]
    assert [(each["object_type"], each["path"]) for each in listed] == [("FILE", f"{FILES}/conf/dev one.yaml")]
    assert ask(served, "GET", f"/api/2.0/workspace/export?path={path}&direct_download=true") == b"a: 1"
    assert ask(served, "GET", f"/api/2.0/workspace/export?path={path}") == {"content": "YTogMQ=="}
    assert ask(served, "GET", f"/api/2.0/workspace-files{path}") == b"a: 1"
    ask(served, "POST", "/api/2.0/workspace/import", {"path": f"{FILES}/conf/two", "content": "YTogMQ=="})
    assert served.files[f"{FILES}/conf/two"] == b"a: 1"
    ask(served, "POST", "/api/2.0/workspace/delete", {"path": FILES, "recursive": True})
    assert served.files == {}
    assert "doesn't exist" in missing(served, "POST", "/api/2.0/workspace/delete", {"path": FILES})
    assert served.changes == []


def test_a_volume_is_in_a_schema_and_both_have_grants(served: Workspace) -> None:
    volume = {"catalog_name": "main", "schema_name": "bronze", "name": "checkpoints", "volume_type": "MANAGED"}
    assert "Schema 'main.bronze' does not exist" in missing(served, "POST", f"{UNITY}/volumes", volume)
    ask(served, "POST", f"{UNITY}/schemas", {"catalog_name": "main", "name": "bronze"})
    ask(served, "POST", f"{UNITY}/volumes", volume)
    assert ask(served, "GET", f"{UNITY}/schemas/main.bronze")["full_name"] == "main.bronze"
    assert ask(served, "GET", f"{UNITY}/volumes/main.bronze.checkpoints")["volume_type"] == "MANAGED"
    assert ask(served, "PATCH", f"{UNITY}/schemas/main.bronze", {"comment": "x"})["comment"] == "x"
    assert ask(served, "PATCH", f"{UNITY}/volumes/main.bronze.checkpoints", {"comment": "y"})["comment"] == "y"
    changes = [{"principal": "readers", "add": ["SELECT", "USE_SCHEMA"]}, {"principal": "ada", "add": ["MODIFY"]}]
    ask(served, "PATCH", f"{UNITY}/permissions/schema/main.bronze", {"changes": changes})
    changes = [{"principal": "readers", "remove": ["SELECT"]}, {"principal": "ada", "remove": ["ALL_PRIVILEGES"]}]
    ask(served, "PATCH", f"{UNITY}/permissions/schema/main.bronze", {"changes": changes})
    assert ask(served, "GET", f"{UNITY}/permissions/SCHEMA/main.bronze") == {
        "privilege_assignments": [{"principal": "readers", "privileges": ["USE_SCHEMA"]}]
    }
    ask(served, "DELETE", f"{UNITY}/volumes/main.bronze.checkpoints")
    ask(served, "DELETE", f"{UNITY}/schemas/main.bronze")
    assert "does not exist" in missing(served, "GET", f"{UNITY}/volumes/main.bronze.checkpoints")
    assert "does not exist" in missing(served, "DELETE", f"{UNITY}/schemas/main.bronze")
    assert len(served.changes) == 10


def test_a_job_has_its_settings_and_its_list_of_who_may_see_it(served: Workspace) -> None:
    job = ask(served, "POST", "/api/2.2/jobs/create", {"name": "audit", "tasks": [{"task_key": "prove"}]})["job_id"]
    settings = ask(served, "GET", f"/api/2.2/jobs/get?job_id={job}")["settings"]
    assert (settings["name"], settings["tasks"][0]["run_if"]) == ("audit", "ALL_SUCCESS")
    ask(served, "POST", "/api/2.2/jobs/reset", {"job_id": job, "new_settings": {"name": "other"}})
    assert served.jobs[job]["name"] == "other"
    allowed = {"access_control_list": [{"group_name": "readers", "permission_level": "CAN_VIEW"}]}
    ask(served, "PUT", f"/api/2.0/permissions/jobs/{job}", allowed)
    (listed,) = ask(served, "GET", f"/api/2.0/permissions/jobs/{job}")["access_control_list"]
    assert listed["all_permissions"] == [{"permission_level": "CAN_VIEW", "inherited": False}]
    ask(served, "POST", "/api/2.2/jobs/delete", {"job_id": job})
    assert "does not exist" in missing(served, "GET", f"/api/2.2/jobs/get?job_id={job}")
    assert "does not exist" in missing(served, "POST", "/api/2.2/jobs/reset", {"job_id": job, "new_settings": {}})


def test_a_dashboard_is_changed_published_and_deleted(served: Workspace) -> None:
    place = "/api/2.0/lakeview/dashboards"
    made = ask(served, "POST", place, {"display_name": "oncelake", "parent_path": FILES, "warehouse_id": "w"})
    one = f"{place}/{made['dashboard_id']}"
    assert made["path"] == f"{FILES.removeprefix('/Workspace')}/oncelake.lvdash.json"
    assert "not published" in missing(served, "GET", f"{one}/published")
    assert ask(served, "POST", f"{one}/published", {"embed_credentials": False})["warehouse_id"] == "w"
    assert ask(served, "GET", f"{one}/published")["embed_credentials"] is False
    assert ask(served, "PATCH", one, {"display_name": "other"})["etag"] != made["etag"]
    assert ask(served, "GET", one)["display_name"] == "other"
    ask(served, "DELETE", one)
    assert "does not exist" in missing(served, "GET", one)


def test_a_call_that_is_not_known_is_recorded(served: Workspace) -> None:
    assert "no answer to" in missing(served, "GET", "/api/2.0/clusters/list")
    assert served.unknown == [("GET", "/api/2.0/clusters/list")]
