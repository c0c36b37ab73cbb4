"""The targets that come with the harness: records behind the JSON adapter, the courier's parcels, and text files.

Records and parcels are at one desk, a server in a process of its own. The files are their own log: an operation
appends a line that bears its id.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from counterfoil.models.operations.contract import Constraints, OperationRequest, Owner, Resource, operation_id
from counterfoil.worker.faults import courier, desk
from counterfoil.worker.faults.target import Effect, Target

START_SECONDS = 20
RECORDS = 12
SHELVES = 24
LOCKERS = 16
FILES = 8

PROFILE = """
name = "{name}"
base_url = "http://127.0.0.1:{port}/{section}"
settles_after_seconds = 5
call_timeout_seconds = 2
max_concurrent_calls = 32

[idempotency]
retention_seconds = {retention}

[entities.contact]
path = "shelves/{{shelf}}/contacts"
etags = true
reads = "strong"

[entities.contact.client_key]
field = "external_ref"
query = "external_ref"
items = "items"
lookup = "strong"

[entities.lead]
path = "shelves/{{shelf}}/leads"

[entities.lead.client_key]
field = "external_ref"
query = "external_ref"
items = "items"
lookup = "eventual"

[entities.note]
path = "shelves/{{shelf}}/notes"
"""


class DeskProcess:
    """The desk, shared by whoever needs it: started by the first, ended by the last."""

    def __init__(self) -> None:
        self._users = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path()
        self.port = 0

    def start(self, folder: Path) -> None:
        self._users += 1
        if self._process is not None:
            return
        self.folder = folder / "desk"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / desk.LOG_FILE).touch()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "counterfoil.worker.faults.desk", str(self.folder)], start_new_session=True
        )
        deadline = time.monotonic() + START_SECONDS
        while not (self.folder / desk.PORT_FILE).exists():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("the desk did not start")
            time.sleep(0.02)
        self.port = int((self.folder / desk.PORT_FILE).read_text())

    def stop(self) -> None:
        self._users -= 1
        if self._users == 0 and self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            (self.folder / desk.PORT_FILE).unlink(missing_ok=True)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())

    def order(self, key: str, misbehaviour: str, times: int = 1) -> None:
        self.call("PUT", f"/orders/{key}", {"how": misbehaviour, "times": times})

    def effects(self) -> list[Effect]:
        lines = (self.folder / desk.LOG_FILE).read_text().splitlines()
        return [Effect(line["operation"], line["content"]) for line in map(json.loads, lines)]


class Records:
    """Records of a JSON API: new ones, notes that nothing can look up, and changes of a few that all want."""

    name = "http.json.v1"
    adapters: Sequence[str] = ()
    misbehaviours = (*desk.CHANGES, "blind", "lagging")

    def __init__(self, at: DeskProcess) -> None:
        self.desk = at

    def start(self, folder: Path) -> Mapping[str, str]:
        self.desk.start(folder)
        profiles = folder / "profiles"
        profiles.mkdir(exist_ok=True)
        for name, section, retention in (("desk", "v1", 3600), ("brief", "brief", desk.BRIEF_RETENTION_SECONDS)):
            text = PROFILE.format(name=name, port=self.desk.port, section=section, retention=retention)
            (profiles / f"{name}.toml").write_text(text)
        for number in range(RECORDS):
            self.desk.call("PUT", f"/seed/v1/shelves/0/contacts/s{number}", {"name": "nobody"})
        return {"COUNTERFOIL_HTTP_PROFILES": str(profiles)}

    def stop(self) -> None:
        self.desk.stop()

    def request(self, draw: Random, owner: Owner, key: str) -> OperationRequest:
        kind = draw.choices(("new", "change", "note"), (5, 4, 2))[0]
        fields = {"name": f"name of {key}", "city": f"city of {key}", "mood": draw.choice(("calm", "cross"))}
        shelf, attempts = str(draw.randrange(SHELVES)), draw.choice((1, 2))
        if kind == "new":
            return record_request(owner, key, "contact", fields, attempts, shelf=shelf)
        if kind == "note":
            return record_request(owner, key, "note", fields, attempts, shelf=shelf)
        return record_request(owner, key, "contact", fields, attempts, record=f"s{draw.randrange(RECORDS)}")

    def order(self, operation_id: str, misbehaviour: str) -> None:
        if misbehaviour in desk.READS:
            self.desk.order(operation_id, "drop_after")
            self.desk.order(operation_id, misbehaviour, times=8)
        else:
            self.desk.order(operation_id, misbehaviour)

    def wanted(self, request: OperationRequest) -> Any:
        return request.input["fields"]

    def effects(self) -> Sequence[Effect]:
        return self.desk.effects()


class Parcels:
    """Parcels in few lockers, some at once and some on their way for a while."""

    name = courier.ROUTE_ID
    adapters = ("counterfoil.worker.faults.courier:register",)
    misbehaviours = (*desk.CHANGES, "blind")

    def __init__(self, at: DeskProcess) -> None:
        self.desk = at

    def start(self, folder: Path) -> Mapping[str, str]:
        self.desk.start(folder)
        return {courier.DESK: f"127.0.0.1:{self.desk.port}"}

    def stop(self) -> None:
        self.desk.stop()

    def request(self, draw: Random, owner: Owner, key: str) -> OperationRequest:
        seconds = draw.choice((0, 0, 0.5, 2))
        return parcel_request(owner, key, seconds, draw.choice((1, 2, 3)), locker=f"l{draw.randrange(LOCKERS)}")

    def order(self, operation_id: str, misbehaviour: str) -> None:
        times = 4 if misbehaviour == "blind" else 1
        self.desk.order(operation_id, misbehaviour, times)

    def wanted(self, request: OperationRequest) -> Any:
        return {"value": request.input["value"], "beside": []}

    def effects(self) -> Sequence[Effect]:
        return self.desk.effects()


class Files:
    """Lines appended to a few text files, which are the log."""

    name = "local.files.v1"
    adapters: Sequence[str] = ()
    misbehaviours: Sequence[str] = ()

    def __init__(self) -> None:
        self.workspace = Path()

    def start(self, folder: Path) -> Mapping[str, str]:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        for number in range(FILES):
            (self.workspace / f"journal-{number}.txt").touch()
        return {"COUNTERFOIL_WORKSPACE_ROOT": str(self.workspace)}

    def stop(self) -> None:
        """Files need no ending."""

    def request(self, draw: Random, owner: Owner, key: str) -> OperationRequest:
        return append_request(owner, key, f"journal-{draw.randrange(FILES)}.txt", draw.choice((1, 2)))

    def order(self, operation_id: str, misbehaviour: str) -> None:
        raise ValueError(f"files do not know the misbehaviour '{misbehaviour}'")

    def wanted(self, request: OperationRequest) -> Any:
        return request.input["text"].strip()

    def effects(self) -> Sequence[Effect]:
        lines = [
            line for file in sorted(self.workspace.glob("journal-*.txt")) for line in file.read_text().splitlines()
        ]
        return [Effect(line.partition(" ")[0], line) for line in lines]


def targets() -> list[Target]:
    """All of them, at one desk."""
    at = DeskProcess()
    return [Records(at), Parcels(at), Files()]


def record_request(
    owner: Owner,
    key: str,
    entity: str,
    fields: dict[str, Any],
    max_attempts: int = 1,
    *,
    shelf: str = "0",
    record: str | None = None,
    profile: str = "desk",
    **changes: Any,
) -> OperationRequest:
    """A request for a new record, or for a change of `record`."""
    given = {"entity": entity, "fields": fields, "parameters": {"shelf": shelf}}
    given |= {} if record is None else {"id": record}
    # A collection takes one creation at a time, which is why there are several shelves.
    identity = f"shelves/{shelf}/{entity}s" + ("" if record is None else f"/{record}")
    return _request(
        owner,
        key,
        "record.create" if record is None else "record.update",
        f"http.json.v1:{profile}",
        given,
        Resource(kind="remote_entity", system=profile, identity=identity),
        max_attempts,
        changes,
    )


def parcel_request(
    owner: Owner, key: str, seconds: float = 0, max_attempts: int = 1, *, locker: str, **changes: Any
) -> OperationRequest:
    """A request for one parcel, in a locker that holds one at a time."""
    given = {"value": f"value of {key}", "seconds": seconds}
    resource = Resource(kind="remote_entity", system="courier", identity=locker)
    return _request(owner, key, "parcel.post", courier.ROUTE_ID, given, resource, max_attempts, changes)


def append_request(owner: Owner, key: str, path: str, max_attempts: int = 1, **changes: Any) -> OperationRequest:
    """A request for one line at the end of a file, which names its operation."""
    given = {"path": path, "text": f"{operation_id(owner.session, key)} was here\n"}
    resource = Resource(kind="file", system="file", identity=path)
    return _request(owner, key, "file.append", "local.files.v1", given, resource, max_attempts, changes)


def _request(
    owner: Owner,
    key: str,
    capability: str,
    route_id: str,
    given: dict[str, Any],
    resource: Resource,
    max_attempts: int,
    changes: dict[str, Any],
) -> OperationRequest:
    limits = {"max_attempts": max_attempts, "max_polls": 17} | changes.pop("constraints", {})
    return OperationRequest(
        owner=owner,
        idempotency_key=key,
        capability=capability,
        route_id=route_id,
        objective="survive",
        input=given,
        resources=(resource,),
        constraints=Constraints.model_validate(limits),
        **changes,
    )
