"""A small stand-in for a Databricks workspace: the part of its REST API that `databricks bundle` calls."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

METASTORE = "00000000-0000-0000-0000-00000000beef"
WORKSPACE_ID = "900800700600"
Json = dict[str, Any]


class NotThereError(Exception):
    """Raised when a call names a thing that the workspace does not have."""


@dataclass
class Call:
    """One call of the API.

    Attributes:
        method: such as GET.
        path: without the query.
        query: the first value of each parameter.
        body: as it was sent.
        names: the variable parts of the path, in their order.
    """

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    names: tuple[str, ...] = ()

    @property
    def values(self) -> Json:
        """Return the body's JSON object."""
        values: Json = json.loads(self.body or b"{}")
        return values


@dataclass
class Workspace:
    """What the workspace holds, and the calls that were made.

    Attributes:
        user: who calls, as the API names the user.
        host: its address.
        calls: the method and path of each call, in their order.
        unknown: those that this stand-in does not know.
        files: the contents of files by path.
        directories: the paths of directories.
        jobs: the settings of jobs by ID.
        schemas: by full name.
        volumes: by full name.
        dashboards: by ID.
        grants: the privileges of each principal by kind and name of what they are for.
        permissions: the access lists by kind and ID of an object.
    """

    user: str
    host: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    jobs: dict[int, Json] = field(default_factory=dict)
    schemas: dict[str, Json] = field(default_factory=dict)
    volumes: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, Json] = field(default_factory=dict)
    grants: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    permissions: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: count(1001))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Return the calls that can change a resource, without those for files, of which each deployment has some."""
        return [
            (method, path)
            for method, path in self.calls
            if method != "GET" and re.search("/(jobs|unity-catalog|lakeview)/", path)
        ]

    def answer(self, call: Call) -> tuple[int, Any]:
        """Return the status and the answer of a call."""
        with self._lock:
            self.calls.append((call.method, call.path))
            for method, pattern, respond in _ROUTES:
                matched = pattern.fullmatch(call.path) if method == call.method else None
                if matched:
                    call.names = tuple(unquote(name) for name in matched.groups())
                    try:
                        return 200, respond(self, call)
                    except NotThereError as error:
                        return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": str(error)}
            self.unknown.append((call.method, call.path))
            return 404, {"error_code": "ENDPOINT_NOT_FOUND", "message": f"no answer to {call.method} {call.path}"}

    def new_id(self) -> int:
        """Return an ID that nothing has."""
        return next(self._ids)


_ROUTES: list[tuple[str, re.Pattern[str], Callable[[Workspace, Call], Any]]] = []
_Respond = TypeVar("_Respond", bound=Callable[[Workspace, Call], Any])


def _route(method: str, path: str) -> Callable[[_Respond], _Respond]:
    """Answer calls of a path, in which `*` is a name and `**` the rest of the path."""
    pattern = re.compile(re.escape(path).replace(r"\*\*", "(.*)").replace(r"\*", "([^/]+)"))

    def register(respond: _Respond) -> _Respond:
        _ROUTES.append((method, pattern, respond))
        return respond

    return register


@contextmanager
def workspace(user: str) -> Iterator[Workspace]:
    """Serve an empty workspace until the end of the block."""
    served = Workspace(user)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = served.answer(Call(self.command, parts.path, query, body))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            kind = "application/octet-stream" if isinstance(answer, bytes) else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Databricks-Org-Id", WORKSPACE_ID)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer  # noqa: N815 - their names in http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        served.host = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield served
        finally:
            server.shutdown()


@_route("GET", "/.well-known/databricks-config")
def _config(workspace: Workspace, _: Call) -> Json:
    return {"oidc_endpoint": f"{workspace.host}/oidc", "workspace_id": WORKSPACE_ID}


@_route("GET", "/api/2.0/preview/scim/v2/Me")
def _me(workspace: Workspace, _: Call) -> Json:
    return {"id": "1", "userName": workspace.user, "active": True}


@_route("GET", "/api/2.1/unity-catalog/current-metastore-assignment")
def _metastore(_: Workspace, __: Call) -> Json:
    return {"metastore_id": METASTORE, "workspace_id": int(WORKSPACE_ID), "default_catalog_name": "main"}


@_route("POST", "/telemetry-ext")
def _telemetry(_: Workspace, call: Call) -> Json:
    return {"errors": [], "numProtoSuccess": len(call.values.get("protoLogs", []))}


# files


@_route("GET", "/api/2.0/workspace/get-status")
def _status(workspace: Workspace, call: Call) -> Json:
    path = call.query["path"].rstrip("/")
    kind = "DIRECTORY" if path in workspace.directories else "FILE" if path in workspace.files else None
    if kind is None:
        raise NotThereError(f"Path ({path}) doesn't exist.")
    return {"object_type": kind, "path": path, "object_id": _number(path), "resource_id": str(_number(path))}


@_route("GET", "/api/2.0/workspace/list")
def _list(workspace: Workspace, call: Call) -> Json:
    path = call.query["path"].rstrip("/")
    if path not in workspace.directories:
        raise NotThereError(f"Path ({path}) doesn't exist.")
    below = [each for each in (*workspace.directories, *workspace.files) if each.rpartition("/")[0] == path]
    return {"objects": [_status(workspace, Call("GET", "", {"path": each}, b"")) for each in sorted(below)]}


@_route("POST", "/api/2.0/workspace/mkdirs")
def _mkdirs(workspace: Workspace, call: Call) -> Json:
    path = call.values["path"].rstrip("/")
    while path:
        workspace.directories.add(path)
        path = path.rpartition("/")[0]
    return {}


@_route("POST", "/api/2.0/workspace/delete")
def _delete(workspace: Workspace, call: Call) -> Json:
    path = call.values["path"].rstrip("/")
    if path not in workspace.directories and path not in workspace.files:
        raise NotThereError(f"Path ({path}) doesn't exist.")
    gone = [each for each in (*workspace.files, *workspace.directories) if each == path or each.startswith(f"{path}/")]
    for each in gone:
        workspace.files.pop(each, None)
        workspace.directories.discard(each)
    return {}


@_route("POST", "/api/2.0/workspace-files/import-file/**")
def _import_file(workspace: Workspace, call: Call) -> Json:
    _put(workspace, f"/{call.names[0].lstrip('/')}", call.body)
    return {}


@_route("POST", "/api/2.0/workspace/import")
def _import(workspace: Workspace, call: Call) -> Json:
    _put(workspace, call.values["path"], base64.b64decode(call.values["content"]))
    return {}


def _put(workspace: Workspace, path: str, content: bytes) -> None:
    if path.rpartition("/")[0] not in workspace.directories:
        raise NotThereError(f"The parent folder ({path.rpartition('/')[0]}) does not exist.")
    workspace.files[path] = content


@_route("GET", "/api/2.0/workspace/export")
def _export(workspace: Workspace, call: Call) -> Any:
    content = _content(workspace, call.query["path"])
    if call.query.get("direct_download") == "true":
        return content
    return {"content": base64.b64encode(content).decode()}


@_route("GET", "/api/2.0/workspace-files/**")
def _read_file(workspace: Workspace, call: Call) -> bytes:
    return _content(workspace, f"/{call.names[0].lstrip('/')}")


def _content(workspace: Workspace, path: str) -> bytes:
    if path not in workspace.files:
        raise NotThereError(f"Path ({path}) doesn't exist.")
    return workspace.files[path]


def _number(path: str) -> int:
    return sum(map(ord, path)) * 1000 + len(path)


# schemas, volumes and their grants


def _catalog_object(held: dict[str, Json], kind: str, name: str) -> Json:
    if name not in held:
        raise NotThereError(f"{kind} '{name}' does not exist.")
    return held[name]


@_route("POST", "/api/2.1/unity-catalog/schemas")
def _make_schema(workspace: Workspace, call: Call) -> Json:
    name = f"{call.values['catalog_name']}.{call.values['name']}"
    workspace.schemas[name] = {**call.values, "full_name": name, "owner": workspace.user, "schema_id": f"id of {name}"}
    return workspace.schemas[name]


@_route("POST", "/api/2.1/unity-catalog/volumes")
def _make_volume(workspace: Workspace, call: Call) -> Json:
    schema = f"{call.values['catalog_name']}.{call.values['schema_name']}"
    _catalog_object(workspace.schemas, "Schema", schema)
    name = f"{schema}.{call.values['name']}"
    place = {"storage_location": f"s3://metastore/{name}", "volume_id": f"id of {name}"}
    workspace.volumes[name] = {**call.values, "full_name": name, "owner": workspace.user, **place}
    return workspace.volumes[name]


def _keep(path: str, kind: str, held: Callable[[Workspace], dict[str, Json]]) -> None:
    """Answer the calls for schemas, or for volumes, that were made."""

    @_route("GET", path)
    def _(workspace: Workspace, call: Call) -> Json:
        return _catalog_object(held(workspace), kind, *call.names)

    @_route("PATCH", path)
    def _(workspace: Workspace, call: Call) -> Json:
        found = _catalog_object(held(workspace), kind, *call.names)
        found.update(call.values)
        return found

    @_route("DELETE", path)
    def _(workspace: Workspace, call: Call) -> Json:
        _catalog_object(held(workspace), kind, *call.names)
        del held(workspace)[call.names[0]]
        return {}


_keep("/api/2.1/unity-catalog/schemas/*", "Schema", lambda workspace: workspace.schemas)
_keep("/api/2.1/unity-catalog/volumes/*", "Volume", lambda workspace: workspace.volumes)


@_route("GET", "/api/2.1/unity-catalog/permissions/*/*")
def _grants(workspace: Workspace, call: Call) -> Json:
    granted = workspace.grants.get((call.names[0].lower(), call.names[1]), {})
    return {
        "privilege_assignments": [
            {"principal": principal, "privileges": sorted(privileges)} for principal, privileges in granted.items()
        ]
    }


@_route("PATCH", "/api/2.1/unity-catalog/permissions/*/*")
def _grant(workspace: Workspace, call: Call) -> Json:
    granted = workspace.grants.setdefault((call.names[0].lower(), call.names[1]), {})
    for change in call.values["changes"]:
        privileges = granted.setdefault(change["principal"], set())
        removed = set(change.get("remove", ()))
        privileges -= privileges if "ALL_PRIVILEGES" in removed else removed
        privileges |= set(change.get("add", ()))
        if not privileges:
            del granted[change["principal"]]
    return _grants(workspace, call)


# jobs, dashboards and who may see them


@_route("POST", "/api/2.2/jobs/create")
def _make_job(workspace: Workspace, call: Call) -> Json:
    job = workspace.new_id()
    workspace.jobs[job] = _with_defaults(call.values)
    return {"job_id": job}


@_route("POST", "/api/2.2/jobs/reset")
def _change_job(workspace: Workspace, call: Call) -> Json:
    _job_settings(workspace, call.values["job_id"])
    workspace.jobs[call.values["job_id"]] = _with_defaults(call.values["new_settings"])
    return {}


@_route("POST", "/api/2.2/jobs/delete")
def _delete_job(workspace: Workspace, call: Call) -> Json:
    _job_settings(workspace, call.values["job_id"])
    del workspace.jobs[call.values["job_id"]]
    return {}


@_route("GET", "/api/2.2/jobs/get")
def _job(workspace: Workspace, call: Call) -> Json:
    job = int(call.query["job_id"])
    settings = _job_settings(workspace, job)
    return {
        "job_id": job,
        "creator_user_name": workspace.user,
        "run_as_user_name": workspace.user,
        "settings": settings,
    }


def _job_settings(workspace: Workspace, job: int) -> Json:
    if job not in workspace.jobs:
        raise NotThereError(f"Job {job} does not exist.")
    return workspace.jobs[job]


def _with_defaults(settings: Json) -> Json:
    """Add what the API adds to a job's settings."""
    tasks = [
        {"run_if": "ALL_SUCCESS", "timeout_seconds": 0, "email_notifications": {}, **task}
        for task in settings.get("tasks", [])
    ]
    added: Json = {"email_notifications": {}, "webhook_notifications": {}, "timeout_seconds": 0}
    return {**added, **settings, "tasks": tasks}


@_route("POST", "/api/2.0/lakeview/dashboards")
def _make_dashboard(workspace: Workspace, call: Call) -> Json:
    dashboard = f"{workspace.new_id():032x}"
    values = call.values
    # the API returns the path without /Workspace
    parent = values["parent_path"].removeprefix("/Workspace")
    at = {"parent_path": parent, "path": f"{parent}/{values['display_name']}.lvdash.json"}
    workspace.dashboards[dashboard] = {
        **values,
        **at,
        "dashboard_id": dashboard,
        "etag": "1",
        "lifecycle_state": "ACTIVE",
        "published": None,
    }
    return workspace.dashboards[dashboard]


@_route("GET", "/api/2.0/lakeview/dashboards/*")
def _dashboard(workspace: Workspace, call: Call) -> Json:
    if call.names[0] not in workspace.dashboards:
        raise NotThereError(f"Dashboard {call.names[0]} does not exist.")
    return workspace.dashboards[call.names[0]]


@_route("PATCH", "/api/2.0/lakeview/dashboards/*")
def _change_dashboard(workspace: Workspace, call: Call) -> Json:
    dashboard = _dashboard(workspace, call)
    dashboard.update(call.values, etag=str(int(dashboard["etag"]) + 1))
    return dashboard


@_route("DELETE", "/api/2.0/lakeview/dashboards/*")
def _trash_dashboard(workspace: Workspace, call: Call) -> Json:
    _dashboard(workspace, call)
    del workspace.dashboards[call.names[0]]
    return {}


@_route("POST", "/api/2.0/lakeview/dashboards/*/published")
def _publish(workspace: Workspace, call: Call) -> Json:
    dashboard = _dashboard(workspace, call)
    dashboard["published"] = {
        "display_name": dashboard["display_name"],
        "warehouse_id": call.values.get("warehouse_id", dashboard.get("warehouse_id")),
        "embed_credentials": call.values.get("embed_credentials", False),
    }
    return _published(workspace, call)


@_route("GET", "/api/2.0/lakeview/dashboards/*/published")
def _published(workspace: Workspace, call: Call) -> Json:
    published: Json | None = _dashboard(workspace, call)["published"]
    if published is None:
        raise NotThereError(f"Dashboard {call.names[0]} is not published.")
    return published


@_route("GET", "/api/2.0/permissions/*/*")
def _permissions(workspace: Workspace, call: Call) -> Json:
    kind, name = call.names
    listed = [
        {
            **{key: value for key, value in entry.items() if key != "permission_level"},
            "all_permissions": [{"permission_level": entry["permission_level"], "inherited": False}],
        }
        for entry in workspace.permissions.get((kind, name), [])
    ]
    return {"object_id": f"/{kind}/{name}", "object_type": kind, "access_control_list": listed}


@_route("PUT", "/api/2.0/permissions/*/*")
def _permit(workspace: Workspace, call: Call) -> Json:
    kind, name = call.names
    workspace.permissions[kind, name] = call.values.get("access_control_list", [])
    return _permissions(workspace, call)
