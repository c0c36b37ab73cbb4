"""`local.files.v1`: create, replace and append to text files below a workspace root, one rename each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, ValidationError

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.jail import FILE_SYSTEM, WorkspaceRoot, normalise_file_resource, normalise_path
from counterfoil.activities.adapters.publication import ABSENT_VERSION, Publisher
from counterfoil.activities.adapters.publishing import Bound, FilePublishing
from counterfoil.activities.adapters.text_preview import preview_of, visible
from counterfoil.models.common import Contract, Digest, digest_bytes
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    BoundVersion,
    Contradicted,
    Evidence,
    Failed,
    Prepared,
    TypedResult,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

ROUTE_ID = "local.files.v1"

TEXT_LIMIT_BYTES = 512 * 1024
"""Text larger than this (UTF-8) is refused with `INPUT_TOO_LARGE`."""

FILE_LIMIT_BYTES = 16 * 1024 * 1024
"""An existing file larger than this is refused with `FILE_TOO_LARGE`."""


class CreateFile(Contract):
    """`file.create`: a new file. Folders on its way are made."""

    path: Annotated[str, Field(max_length=4096)]
    text: str


class ReplaceFile(Contract):
    """`file.replace`: the whole content of an existing text file, if it is the one `expected_digest` names."""

    path: Annotated[str, Field(max_length=4096)]
    text: str
    expected_digest: Digest | None = None


class AppendFile(Contract):
    """`file.append`: text put at the end of an existing text file, exactly as it is: no line end is added."""

    path: Annotated[str, Field(max_length=4096)]
    text: str


TextChange = CreateFile | ReplaceFile | AppendFile

INPUTS: dict[str, type[CreateFile] | type[ReplaceFile] | type[AppendFile]] = {
    "file.create": CreateFile,
    "file.replace": ReplaceFile,
    "file.append": AppendFile,
}


class LocalFiles(FilePublishing):
    """The adapter. `publisher` must publish below the same `root`."""

    def __init__(self, publisher: Publisher, root: WorkspaceRoot, *, environment: str = "local") -> None:
        route = Route(
            id=ROUTE_ID,
            adapter="local.files",
            adapter_version="1",
            capabilities=tuple(INPUTS),
            protocol="posix",
            control="atomic rename under a lock and a fence",
            environment=environment,
            readiness=True,
            preparation=PreparationSupport.PURE,
            observation=True,
            verification=True,
            replay=ReplayGuarantee(kind="conditional"),
        )
        super().__init__(publisher, root, route)

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of a capability's input."""
        return INPUTS[capability].model_json_schema()

    def validate_input(self, request: OperationRequest) -> TextChange:
        """The typed input, its path in the one spelling. Besides the usual codes: `PATH_REFUSED`, `INPUT_TOO_LARGE`."""
        try:
            change = INPUTS[request.capability].model_validate(request.input)
        except ValidationError as error:
            problems = [
                f"{'.'.join(visible(str(part)) for part in problem['loc']) or 'input'}: {problem['msg']}"
                for problem in error.errors(include_input=False, include_url=False)
            ]
            raise _refuse(ErrorCode.INVALID_INPUT, "; ".join(problems)[:1000], "correct the input") from error
        _check_text(change.text)
        change = change.model_copy(update={"path": normalise_path(change.path)})
        _check_resources(request, change.path)
        return change

    def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """The exact bytes the file will have, bound to the version it has now; nothing is written."""
        change = _change_of(order)
        resource = _file_of(order)
        try:
            before = self._current(change)
            version = ABSENT_VERSION if before is None else digest_bytes(before)
            _check_version(change, resource, version)
            content = change.text.encode()
            if isinstance(change, AppendFile) and before is not None:
                content = before + content
        except Refusal as refusal:
            return Failed(code=refusal.code, detail=refusal.detail)
        material = context.blobs.put(content, "text/plain; charset=utf-8")
        verb = order.request.capability.removeprefix("file.")
        return Prepared(
            summary=f"{verb} {change.path}: {len(before or b'')} → {len(content)} bytes",
            preview=preview_of((before or b"").decode(), content.decode()),
            versions=(BoundVersion(resource=resource, version=version),),
            material=material,
            data={"content_digest": digest_bytes(content), "expected_digest": None if before is None else version},
        )

    def verify(self, context: AdapterContext, order: Order) -> Verified | Contradicted | VerificationUnavailable:
        """Read the file back, from the root down, and compare its digest with that of the prepared bytes."""
        if order.prepared is None:
            return VerificationUnavailable(detail="nothing was prepared to compare the file with")
        path, wanted = _change_of(order).path, order.prepared.data["content_digest"]
        observed_at = datetime.now(UTC)
        try:
            state = self._root.state(path)
        except Refusal as refusal:
            evidence = _evidence(path, observed_at, None, {"found": refusal.code})
            return Contradicted(evidence=evidence, detail=f"the file cannot be read: {refusal.detail}")
        except OSError as error:
            return VerificationUnavailable(detail=f"the file cannot be read: {error.strerror}")
        if state is None:
            evidence = _evidence(path, observed_at, None, {"found": ABSENT_VERSION})
            return Contradicted(evidence=evidence, detail="the file does not exist")
        evidence = _evidence(path, observed_at, state.digest, {"size_bytes": state.size_bytes, "expected": wanted})
        if state.digest != wanted:
            detail = f"the file holds {state.size_bytes} bytes with digest {state.digest}, not those that were prepared"
            return Contradicted(evidence=evidence, detail=detail)
        return Verified(evidence=evidence, result=self._published(order, order.prepared, evidence, still_current=True))

    def _path(self, order: Order) -> str:
        return _change_of(order).path

    def _bound(self, prepared: Prepared) -> Bound:
        return Bound(prepared.data["content_digest"], prepared.data["expected_digest"])

    def _published(self, order: Order, prepared: Prepared, evidence: Evidence, *, still_current: bool) -> TypedResult:
        path = _change_of(order).path
        written = f"{order.request.capability} wrote {path}"
        return TypedResult(
            kind="file",
            summary=written if still_current else f"{written}; it was changed since by somebody else",
            data={
                "path": path,
                "digest": prepared.data["content_digest"],
                "replaced_digest": prepared.data["expected_digest"],
                "still_current": still_current,
                "observed_at": evidence.observed_at.isoformat(),
            },
        )

    def _current(self, change: TextChange) -> bytes | None:
        """The file's bytes before the change; None for a new one. Raises `Refusal`."""
        if isinstance(change, CreateFile):
            if self._root.state(change.path) is not None:
                raise _refuse(ErrorCode.TARGET_EXISTS, "a file of this name exists", "replace it, or append to it")
            self._root.refuse_twin(change.path)
            return None
        content = self._root.read_file(change.path, FILE_LIMIT_BYTES)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise _not_text(f"it is not UTF-8 at byte {error.start}") from error
        if "\x00" in text:
            raise _not_text("it contains NUL")
        return content


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise _refuse(ErrorCode.INVALID_INPUT, "the text contains NUL", "remove it")
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise _refuse(ErrorCode.INVALID_INPUT, "the text contains a lone surrogate", "send whole characters") from error
    if size_bytes > TEXT_LIMIT_BYTES:
        raise _refuse(
            ErrorCode.INPUT_TOO_LARGE,
            f"the text is larger than {TEXT_LIMIT_BYTES} bytes in UTF-8",
            "write it in several steps: create, then append",
        )


def _check_resources(request: OperationRequest, path: str) -> None:
    if len(request.resources) != 1:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the request names {len(request.resources)} resources; it changes one file",
            "name exactly the file of the input",
        )
    resource = request.resources[0]
    if (resource.kind, resource.system) != (ResourceKind.FILE, FILE_SYSTEM):
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is a {resource.kind} of '{resource.system}', not a file of '{FILE_SYSTEM}'",
            f"name the resource with kind 'file' and system '{FILE_SYSTEM}'",
        )
    if normalise_file_resource(resource).identity != path:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is '{resource.identity}', the input changes '{path}'",
            "name the same file in both",
        )
    if resource.account_id is not None or resource.tenant_id is not None:
        raise _refuse(ErrorCode.ACCOUNT_MISMATCH, "local files belong to no account or tenant", "leave them out")


def _check_version(change: TextChange, resource: Resource, version: str) -> None:
    asked = {resource.version, change.expected_digest if isinstance(change, ReplaceFile) else None} - {None}
    if asked - {version}:
        raise _refuse(
            ErrorCode.SOURCE_CHANGED,
            f"the file is {version}, the request was written against {', '.join(sorted(map(str, asked)))}",
            "look at the file and ask again",
        )


def _change_of(order: Order) -> TextChange:
    change = order.typed_input
    assert isinstance(change, CreateFile | ReplaceFile | AppendFile)
    return change


def _file_of(order: Order) -> Resource:
    return normalise_file_resource(order.resources[0])


def _evidence(path: str, observed_at: datetime, digest: str | None, facts: dict[str, object]) -> Evidence:
    return Evidence(
        source=f"file:{path}"[:200],
        observed_at=observed_at,
        version=digest or ABSENT_VERSION,
        digest=digest,
        facts={"path": path} | facts,
    )


def _not_text(why: str) -> Refusal:
    return _refuse(ErrorCode.NOT_TEXT, f"the file is not text: {why}", "change it with an adapter for its format")


def _refuse(code: ErrorCode, detail: str, remedy: str) -> Refusal:
    return Refusal(code, detail, subject=ROUTE_ID, remedy=remedy)
