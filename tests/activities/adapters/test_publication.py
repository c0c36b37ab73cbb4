"""Publication: a file is put in place at most once, and what happened can be told afterwards, whatever died when."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from counterfoil.activities.adapters import exclusive_rename, publication, staging
from counterfoil.activities.adapters.base import AdapterContext, Phase
from counterfoil.activities.adapters.jail import FileState, WorkspaceRoot
from counterfoil.activities.adapters.publication import (
    Absent,
    Applied,
    Publication,
    PublicationFenced,
    Publisher,
    Undecided,
)
from counterfoil.activities.fault_points import FaultPoint
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable

HERE = Path(__file__).parent
OLD, NEW = b"the old words\n", b"the new words\n"
OLD_DIGEST = "sha256:" + hashlib.sha256(OLD).hexdigest()
NEW_DIGEST = "sha256:" + hashlib.sha256(NEW).hexdigest()

MakeContext = Callable[..., AdapterContext]


class Workspace:
    """A root with `old.txt` in it, a publisher, and the words to use them."""

    def __init__(self, folder: Path, make_context: MakeContext) -> None:
        self.root = folder / "root"
        self.state = folder / "state"
        self.root.mkdir()
        self.old = self.root / "old.txt"
        self.old.write_bytes(OLD)
        self.new = self.root / "new.txt"
        self.make_context = make_context
        self.publisher = self.another_publisher()

    def another_publisher(self, lock_wait_seconds: float = 5.0) -> Publisher:
        return Publisher(WorkspaceRoot(self.root), self.state, lock_wait_seconds=lock_wait_seconds)

    def replace(self, generation: int = 1, **context):
        change = Publication("old.txt", NEW, NEW_DIGEST, OLD_DIGEST)
        return self.publisher.publish(self.make_context(**context), change, generation)

    def create(self, generation: int = 1, path: str = "new.txt", **context):
        change = Publication(path, NEW, NEW_DIGEST, None)
        return self.publisher.publish(self.make_context(**context), change, generation)

    def observe(self, path: str = "old.txt", generation: int = 1, **context) -> Applied | Absent | Undecided:
        return self.publisher.observe(
            self.make_context(phase=Phase.OBSERVE, **context),
            path=path,
            content_digest=NEW_DIGEST,
            generation=generation,
        )

    def names(self) -> list[str]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())

    def process(self, how: str, point: FaultPoint, generation: int = 1) -> subprocess.Popen[str]:
        """A process that replaces `old.txt` and kills or stops itself at the fault point."""
        program = [sys.executable, str(HERE / "publication_process.py"), str(self.root), str(self.state), "old.txt"]
        return subprocess.Popen(
            [*program, str(generation), how, point, OLD_DIGEST],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.state.parent,
        )


@pytest.fixture
def workspace(tmp_path: Path, make_context: MakeContext) -> Workspace:
    return Workspace(tmp_path, make_context)


def refusal_of(action: Callable[..., object], *arguments: object, **named: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        action(*arguments, **named)
    return caught.value


def at(wanted: FaultPoint, action: Callable[[], object]) -> Callable[[FaultPoint], None]:
    """A checkpoint that does something at one point."""
    return lambda reached: action() if reached is wanted else None  # type: ignore[func-returns-value,return-value]


def crash() -> None:
    raise KeyboardInterrupt


# --- what a publication does


def test_a_file_is_replaced_whole_and_the_evidence_names_what_was_read(workspace: Workspace) -> None:
    evidence = workspace.replace()
    assert workspace.old.read_bytes() == b"the new words\n"
    assert workspace.names() == ["old.txt"]
    assert (evidence.source, evidence.digest) == ("file:old.txt", NEW_DIGEST)
    assert evidence.facts["replaced_digest"] == OLD_DIGEST


def test_a_new_file_is_created_with_the_folders_on_its_way(workspace: Workspace) -> None:
    workspace.create(path="a/b/new.txt")
    assert workspace.names() == ["a/b/new.txt", "old.txt"]
    assert (workspace.root / "a/b/new.txt").read_bytes() == NEW


def test_a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_umask(workspace: Workspace) -> None:
    workspace.old.chmod(0o750)
    umask = os.umask(0o027)
    try:
        workspace.replace()
        workspace.create()
    finally:
        os.umask(umask)
    assert workspace.old.stat().st_mode & 0o7777 == 0o750
    assert workspace.new.stat().st_mode & 0o7777 == 0o640


def test_the_same_attempt_again_gets_the_same_evidence_without_a_second_write(workspace: Workspace) -> None:
    first = workspace.replace()
    workspace.old.write_bytes(b"edited since")
    assert workspace.replace() == first
    assert workspace.replace(generation=2) == first
    assert workspace.old.read_bytes() == b"edited since"


def test_an_operation_does_not_publish_other_content_a_second_time(workspace: Workspace) -> None:
    workspace.replace()
    other = Publication("old.txt", OLD, OLD_DIGEST, NEW_DIGEST)
    assert refusal_of(workspace.publisher.publish, workspace.make_context(), other, 2).code is ErrorCode.NOT_POSSIBLE
    assert workspace.old.read_bytes() == NEW


def test_two_operations_publish_to_one_file_one_after_the_other(workspace: Workspace) -> None:
    workspace.replace()
    back = Publication("old.txt", OLD, OLD_DIGEST, NEW_DIGEST)
    workspace.publisher.publish(workspace.make_context(operation_id="op-other"), back, 1)
    assert workspace.old.read_bytes() == OLD
    finding = workspace.observe()
    assert isinstance(finding, Applied)
    assert not finding.still_current


# --- what it refuses, having written nothing


def test_a_changed_source_is_refused(workspace: Workspace) -> None:
    workspace.old.write_bytes(b"edited")
    assert refusal_of(workspace.replace).code is ErrorCode.SOURCE_CHANGED
    assert workspace.old.read_bytes() == b"edited"
    assert workspace.names() == ["old.txt"]
    assert isinstance(workspace.observe(), Absent)


def test_a_vanished_source_is_refused(workspace: Workspace) -> None:
    workspace.old.unlink()
    assert refusal_of(workspace.replace).code is ErrorCode.FILE_NOT_FOUND
    assert workspace.names() == []


def test_an_existing_target_is_never_overwritten_by_a_creation(workspace: Workspace) -> None:
    workspace.new.write_bytes(b"mine")
    assert refusal_of(workspace.create).code is ErrorCode.TARGET_EXISTS
    assert workspace.new.read_bytes() == b"mine"


@pytest.mark.parametrize("point", [FaultPoint.PUBLISH_LOCKED, FaultPoint.PUBLISH_STAGED, FaultPoint.PUBLISH_INTENDED])
def test_an_edit_at_any_point_before_the_rename_is_noticed(workspace: Workspace, point: FaultPoint) -> None:
    edit = at(point, lambda: workspace.old.write_bytes(b"edited"))
    assert refusal_of(workspace.replace, checkpoint=edit).code is ErrorCode.SOURCE_CHANGED
    create = at(point, lambda: workspace.new.write_bytes(b"mine"))
    assert refusal_of(workspace.create, checkpoint=create).code is ErrorCode.TARGET_EXISTS
    assert (workspace.old.read_bytes(), workspace.new.read_bytes()) == (b"edited", b"mine")
    assert workspace.names() == ["new.txt", "old.txt"]
    assert isinstance(workspace.observe(), Absent)
    assert isinstance(workspace.observe(path="new.txt"), Absent)


def test_an_edit_that_leaves_size_and_times_alone_is_noticed_by_its_digest(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileState, "is_still", lambda state, now: True)
    edit = at(FaultPoint.PUBLISH_INTENDED, lambda: workspace.old.write_bytes(b"THE OLD WORDS\n"))
    assert refusal_of(workspace.replace, checkpoint=edit).code is ErrorCode.SOURCE_CHANGED
    assert workspace.old.read_bytes() == b"THE OLD WORDS\n"


def test_an_edit_after_the_last_hash_is_noticed_by_the_last_look(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(place: staging.Place, staged: str, before: FileState | None) -> None:
        workspace.old.write_bytes(b"edited")
        staging.swap(place, staged, before)

    monkeypatch.setattr(publication, "swap", late)
    assert refusal_of(workspace.replace).code is ErrorCode.SOURCE_CHANGED
    assert workspace.old.read_bytes() == b"edited"
    assert workspace.names() == ["old.txt"]


@pytest.mark.parametrize("atomically", [True, False])
def test_a_file_made_after_the_last_look_is_not_overwritten_by_a_creation(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, atomically: bool
) -> None:
    if not atomically:
        monkeypatch.setattr(exclusive_rename.sys, "platform", "other")

    def late(folder: int, source: str, target: str) -> None:
        workspace.new.write_bytes(b"mine")
        exclusive_rename.rename_exclusive(folder, source, target)

    monkeypatch.setattr(staging, "rename_exclusive", late)
    assert refusal_of(workspace.create).code is ErrorCode.TARGET_EXISTS
    assert workspace.new.read_bytes() == b"mine"
    assert workspace.names() == ["new.txt", "old.txt"]


def test_without_an_exclusive_rename_a_link_does_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive_rename.sys, "platform", "other")
    workspace.create()
    assert workspace.new.read_bytes() == NEW
    assert workspace.new.stat().st_nlink == 1
    assert isinstance(workspace.observe(path="new.txt"), Applied)


def test_bytes_that_are_not_what_their_digest_says_are_refused(workspace: Workspace) -> None:
    wrong = Publication("old.txt", b"other", NEW_DIGEST, OLD_DIGEST)
    assert refusal_of(workspace.publisher.publish, workspace.make_context(), wrong, 1).code is ErrorCode.BLOB_CORRUPT


def test_links_on_the_way_and_at_the_end_are_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (workspace.root / "link").symlink_to(tmp_path / "outside")
    workspace.new.symlink_to(tmp_path / "outside/new.txt")
    assert refusal_of(workspace.create, path="link/new.txt").code is ErrorCode.PATH_REFUSED
    assert refusal_of(workspace.create).code is ErrorCode.PATH_REFUSED
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(workspace: Workspace) -> None:
    workspace.root.chmod(0o500)
    try:
        assert refusal_of(workspace.replace).code is ErrorCode.WRITE_FAILED
    finally:
        workspace.root.chmod(0o700)
    assert isinstance(workspace.observe(), Absent)


@pytest.mark.parametrize("call", ["write", "replace", "fsync", "fchmod"])
def test_a_full_disk_at_any_write_before_the_intent_changes_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    def fail() -> None:
        monkeypatch.setattr(os, call, full)

    point = FaultPoint.PUBLISH_INTENDED if call == "replace" else FaultPoint.PUBLISH_LOCKED
    with pytest.raises((Refusal, OSError)):
        workspace.replace(checkpoint=at(point, fail))
    monkeypatch.undo()
    assert workspace.old.read_bytes() == OLD
    assert isinstance(workspace.observe(), Absent)
    assert workspace.names() == ["old.txt"]


# --- what the observer can tell


def test_a_publication_is_seen_as_applied_and_current(workspace: Workspace) -> None:
    workspace.replace()
    finding = workspace.observe()
    assert isinstance(finding, Applied)
    assert finding.still_current
    assert finding.evidence.digest == NEW_DIGEST


def test_nothing_begun_is_absent_and_the_attempt_is_over(workspace: Workspace) -> None:
    finding = workspace.observe()
    assert isinstance(finding, Absent)
    assert finding.evidence.digest == OLD_DIGEST
    with pytest.raises(PublicationFenced):
        workspace.replace()
    assert workspace.old.read_bytes() == OLD


def test_a_fenced_attempt_is_refused_and_the_next_one_is_not(workspace: Workspace) -> None:
    workspace.observe(generation=3)
    for generation in (1, 2, 3):
        assert refusal_of(workspace.replace, generation=generation).code is ErrorCode.FENCED
    workspace.replace(generation=4)
    assert workspace.old.read_bytes() == NEW


def test_a_fence_is_not_lowered_by_an_older_observation(workspace: Workspace) -> None:
    workspace.observe(generation=3)
    workspace.observe(generation=1)
    assert refusal_of(workspace.replace, generation=2).code is ErrorCode.FENCED


def test_one_operation_s_fence_does_not_bind_another(workspace: Workspace) -> None:
    workspace.observe(generation=9, operation_id="op-other")
    workspace.replace()
    assert workspace.old.read_bytes() == NEW


@pytest.mark.parametrize("edit", ["in place", "by rename", "deleted", "put back"])
def test_a_crash_after_the_rename_is_applied_whatever_became_of_the_file(workspace: Workspace, edit: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.replace(checkpoint=at(FaultPoint.PUBLISH_DONE, crash))
    if edit == "in place":
        workspace.old.write_bytes(b"edited")
    elif edit == "deleted":
        workspace.old.unlink()
    else:
        (workspace.root / "fresh").write_bytes(OLD if edit == "put back" else b"edited")
        (workspace.root / "fresh").rename(workspace.old)
    for _ in range(2):
        finding = workspace.observe()
        assert isinstance(finding, Applied)
        assert not finding.still_current


def test_a_crash_before_the_rename_is_absent_even_if_somebody_wrote_the_same_words(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.replace(checkpoint=at(FaultPoint.PUBLISH_INTENDED, crash))
    workspace.old.write_bytes(NEW)
    assert isinstance(workspace.observe(), Absent)
    assert workspace.names() == ["old.txt"]


def test_a_staged_file_removed_by_somebody_else_does_not_pass_for_a_publication(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.replace(checkpoint=at(FaultPoint.PUBLISH_INTENDED, crash))
    for staged in workspace.root.glob(".counterfoil-*"):
        staged.unlink()
    assert isinstance(workspace.observe(), Absent)


def test_a_replaced_folder_proves_nothing(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.create(path="a/new.txt", checkpoint=at(FaultPoint.PUBLISH_INTENDED, crash))
    (workspace.root / "a").rename(workspace.root / "b")
    assert isinstance(workspace.observe(path="a/new.txt"), Undecided)
    (workspace.root / "a").mkdir()
    assert isinstance(workspace.observe(path="a/new.txt"), Undecided)
    (workspace.root / "a").rmdir()
    (workspace.root / "b").rename(workspace.root / "a")
    assert isinstance(workspace.observe(path="a/new.txt"), Absent)


def test_a_strange_file_under_the_staged_name_leaves_it_undecided(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.create(checkpoint=at(FaultPoint.PUBLISH_INTENDED, crash))
    (staged,) = workspace.root.glob(".counterfoil-*")
    (workspace.root / "copy").write_bytes(staged.read_bytes())
    (workspace.root / "copy").rename(staged)
    assert isinstance(workspace.observe(path="new.txt"), Undecided)


def test_a_record_that_cannot_be_read_leaves_it_undecided(workspace: Workspace) -> None:
    workspace.replace()
    (record,) = (workspace.state / "records").glob("*.json")
    record.write_text("{")
    assert isinstance(workspace.observe(), Undecided)
    with pytest.raises(Unavailable):
        workspace.replace(generation=2)
    assert workspace.old.read_bytes() == NEW


def test_the_next_attempt_settles_what_a_dead_one_left_and_does_not_write_twice(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.replace(checkpoint=at(FaultPoint.PUBLISH_DONE, crash))
    inode = workspace.old.stat().st_ino
    evidence = workspace.replace(generation=2)
    assert evidence.facts["generation"] == 1
    assert workspace.old.stat().st_ino == inode


def test_an_attempt_overtaken_by_a_newer_one_may_not_publish(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt):
        workspace.replace(generation=2, checkpoint=at(FaultPoint.PUBLISH_INTENDED, crash))
    assert refusal_of(workspace.replace, generation=1).code is ErrorCode.FENCED


# --- processes that die and processes that stop


@pytest.mark.parametrize(
    ("point", "content", "finding"),
    [
        (FaultPoint.PUBLISH_LOCKED, OLD, Absent),
        (FaultPoint.PUBLISH_STAGED, OLD, Absent),
        (FaultPoint.PUBLISH_INTENDED, OLD, Absent),
        (FaultPoint.PUBLISH_DONE, NEW, Applied),
    ],
)
def test_after_a_kill_at_a_fault_point_the_observer_says_what_the_file_says(
    workspace: Workspace, point: FaultPoint, content: bytes, finding: type
) -> None:
    assert workspace.process("kill", point).wait(30) == -signal.SIGKILL
    assert workspace.old.read_bytes() == content
    assert isinstance(workspace.observe(), finding)
    assert isinstance(workspace.observe(), finding)
    assert workspace.old.read_bytes() == content
    assert workspace.names() == ["old.txt"]


@pytest.mark.parametrize("scenario", ["create", "create_in_new_folder", "create_without_exclusive_rename", "replace"])
def test_after_a_kill_before_any_system_call_of_writer_and_observer_the_answer_is_right(
    tmp_path: Path, scenario: str
) -> None:
    program = [sys.executable, str(HERE / "publication_crashes.py"), str(tmp_path / "world"), scenario, "observer-too"]
    reports = [json.loads(line) for line in subprocess.check_output(program, text=True, timeout=200).splitlines()]
    old = "the old words\n" if scenario == "replace" else None
    new = "the new words, longer than the old ones\n"
    for report in reports:
        applied = report["at_crash"] == new
        expected = {
            "at_crash": new if applied else old,
            "observed": "Applied" if applied else "Absent",
            "observed_again": "Applied" if applied else "Absent",
            "after_observing": new if applied else old,
            "left_over": [],
            "late_writer": "published" if applied else "FENCED",
            "after_late_writer": new if applied else old,
            "next_attempt": "published",
            "at_the_end": new,
        }
        assert {key: report[key] for key in expected} == expected, report
    assert {report["observed"] for report in reports} == {"Absent", "Applied"}
    assert not reports[-1]["writer_killed"], "the sweep reached the end of the publication"


@pytest.mark.parametrize("point", [FaultPoint.PUBLISH_STAGED, FaultPoint.PUBLISH_INTENDED])
def test_a_stopped_writer_leaves_it_undecided_until_it_goes_on(workspace: Workspace, point: FaultPoint) -> None:
    writer = workspace.process("stop", point)
    try:
        os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)
        workspace.publisher = workspace.another_publisher(lock_wait_seconds=0.1)
        assert isinstance(workspace.observe(), Undecided)
        with pytest.raises(Unavailable):
            workspace.replace(generation=2)
        assert workspace.old.read_bytes() == OLD
        writer.send_signal(signal.SIGCONT)
        output, _ = writer.communicate(timeout=30)
    finally:
        writer.kill()
        writer.wait()
    assert output.strip() == NEW_DIGEST
    assert isinstance(workspace.observe(), Applied)


def test_a_writer_stopped_before_it_had_the_lock_may_not_publish_when_it_goes_on(workspace: Workspace) -> None:
    first = workspace.process("stop", FaultPoint.PUBLISH_LOCKED, generation=1)
    late = None
    try:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        late = workspace.process("stop", FaultPoint.PUBLISH_LOCKED, generation=1)
        time.sleep(1.5)  # it waits for the lock now
        late.send_signal(signal.SIGSTOP)
        first.kill()
        first.wait()
        assert isinstance(workspace.observe(), Absent)
        late.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, late.pid, os.WSTOPPED | os.WNOWAIT)  # it has the lock now, after the fence
        late.send_signal(signal.SIGCONT)
        output, _ = late.communicate(timeout=30)
    finally:
        for writer in filter(None, (first, late)):
            writer.kill()
            writer.wait()
    assert output.strip() == "FENCED"
    assert workspace.old.read_bytes() == OLD


def test_writer_and_observer_at_the_same_moment_always_agree(workspace: Workspace) -> None:
    seen = set()
    for number in range(150):
        workspace.old.write_bytes(OLD)
        operation = f"op-{number}"
        findings: list[Applied | Absent | Undecided] = []

        def look(operation: str = operation, found: list[Applied | Absent | Undecided] = findings) -> None:
            found.append(workspace.observe(operation_id=operation))

        observer = threading.Thread(target=look)
        if number % 3:
            observer.start()
        try:
            workspace.replace(operation_id=operation)
            published = True
        except PublicationFenced:
            published = False
        if not observer.ident:
            observer.start()
        observer.join()
        assert isinstance(findings[0], Applied if published else Absent)
        assert workspace.old.read_bytes() == (NEW if published else OLD)
        seen.add(published)
    assert True in seen


def test_many_writers_of_one_operation_write_once(workspace: Workspace) -> None:
    evidence: list[object] = []
    writers = [
        threading.Thread(target=lambda g=generation: evidence.append(workspace.replace(generation=g)))
        for generation in (1, 1, 1, 1, 1, 1, 1, 1)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(evidence) == 8
    assert all(found == evidence[0] for found in evidence)
