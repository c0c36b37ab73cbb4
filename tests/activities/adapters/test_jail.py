"""The jail: one spelling of a path, and nothing but regular files below the root, whatever lies there."""

from __future__ import annotations

import os
import socket
import threading
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.jail import WorkspaceRoot, normalise_file_resource, normalise_path
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Resource, ResourceKind

SPELLINGS = [
    ("notes.txt", "notes.txt"),
    ("./notes.txt", "notes.txt"),
    ("a//b/./c.txt", "a/b/c.txt"),
    ("report..final.txt", "report..final.txt"),
    ("...", "..."),
    (".hidden/.env", ".hidden/.env"),
    ("a b/c d.txt", "a b/c d.txt"),
    ("größe/日本語/naïve.txt", "größe/日本語/naïve.txt"),
    ("~/x", "~/x"),
    ("C:x", "C:x"),
    ("Screenshot 1.02\u202fPM.png", "Screenshot 1.02\u202fPM.png"),
    ("x" * 255, "x" * 255),
]

HOSTILE = [
    ("", "the path is empty"),
    ("/etc/passwd", "the path is absolute; name it relative to the workspace root"),
    ("//server/share", "the path is absolute; name it relative to the workspace root"),
    ("..", "the path contains '..'"),
    ("../x", "the path contains '..'"),
    ("a/../b", "the path contains '..'"),
    ("a/b/..", "the path contains '..'"),
    (".", "the path names a folder"),
    ("a/", "the path names a folder"),
    ("a/.", "the path names a folder"),
    ("a\\..\\b", "the path contains a backslash; folders are separated by '/'"),
    ("a\x00.txt", "the path contains a control character, U+0000"),
    ("a\nb", "the path contains a control character, U+000A"),
    ("a\x7f", "the path contains a control character, U+007F"),
    ("a\x85", "the path contains a control character, U+0085"),
    ("invoice\u202etxt.exe", "the path contains an invisible format character, U+202E"),
    ("a\u200bb", "the path contains an invisible format character, U+200B"),
    ("\ufeffa", "the path contains an invisible format character, U+FEFF"),
    ("a\u00adb", "the path contains an invisible format character, U+00AD"),
    ("a\U000e0041", "the path contains an invisible format character, U+E0041"),
    ("a\u3164", "the path contains a blank character, U+3164"),
    ("a\ufe0f", "the path contains a blank character, U+FE0F"),
    ("a\u2028b", "the path contains a line break character, U+2028"),
    ("a\ud800", "the path contains a lone surrogate character, U+D800"),
    ("re\u0301sume\u0301", "the path is not NFC-normalised, so another file could bear the same visible name"),
    ("\u212bngstrom", "the path is not NFC-normalised, so another file could bear the same visible name"),
    (" a", "a name in the path begins or ends with white space"),
    ("a /b", "a name in the path begins or ends with white space"),
    ("a/\u00a0b", "a name in the path begins or ends with white space"),
    ("a/ ", "a name in the path begins or ends with white space"),
    ("a/.counterfoil-op-1", "names that begin with '.counterfoil-' are reserved"),
    ("x" * 256, "a name in the path is longer than 255 bytes"),
    ("ä" * 128, "a name in the path is longer than 255 bytes"),
    ("/".join(["x" * 200] * 21), "the path is longer than 4096 bytes"),
]


@pytest.fixture
def root(tmp_path: Path) -> WorkspaceRoot:
    (tmp_path / "dir").mkdir()
    return WorkspaceRoot(tmp_path / "dir")


def refusal_of(action, *arguments, **named) -> Refusal:
    with pytest.raises(Refusal) as caught:
        action(*arguments, **named)
    return caught.value


@pytest.mark.parametrize(("identity", "spelling"), SPELLINGS)
def test_a_legal_path_has_one_spelling(identity: str, spelling: str) -> None:
    assert normalise_path(identity) == spelling


@pytest.mark.parametrize(("identity", "why"), HOSTILE, ids=lambda value: ascii(value)[:40])
def test_a_hostile_path_is_refused_and_told_why(identity: str, why: str) -> None:
    refusal = refusal_of(normalise_path, identity)
    assert (refusal.code, refusal.detail) == (ErrorCode.PATH_REFUSED, why)
    assert refusal.subject.isascii()
    assert refusal.subject.isprintable()
    assert refusal.remedy


@given(st.text() | st.text(alphabet="./\\ab \x00é\u0301\u202e"))
def test_whatever_is_accepted_is_plain_relative_and_spelled_once(identity: str) -> None:
    try:
        path = normalise_path(identity)
    except Refusal:
        return
    assert normalise_path(path) == path
    assert unicodedata.is_normalized("NFC", path)
    assert os.path.normpath(identity) == path
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/"))
    path.encode()


def test_two_spellings_of_a_resource_become_one() -> None:
    resource = Resource(kind=ResourceKind.FILE, system="file", identity="./a//b.txt", version="v1")
    assert normalise_file_resource(resource) == Resource(
        kind=ResourceKind.FILE, system="file", identity="a/b.txt", version="v1"
    )


def test_a_file_is_read_and_described(root: WorkspaceRoot) -> None:
    (root.path / "a").mkdir()
    (root.path / "a/b.txt").write_bytes(b"abc")
    (root.path / "a/b.txt").chmod(0o640)
    state = root.state("a/b.txt")
    assert root.read_file("./a/b.txt", limit_bytes=3) == b"abc"
    assert state is not None
    assert (state.size_bytes, state.mode) == (3, 0o640)
    assert state.digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert root.digest("a/b.txt") == state.digest
    assert state.is_still((root.path / "a/b.txt").stat())


def test_a_file_larger_than_the_limit_is_refused(root: WorkspaceRoot) -> None:
    (root.path / "big").write_bytes(b"x" * 11)
    assert refusal_of(root.read_file, "big", 10).code is ErrorCode.FILE_TOO_LARGE


@pytest.mark.parametrize("path", ["missing.txt", "missing/a.txt"])
def test_what_does_not_exist_is_not_found_and_not_an_empty_file(root: WorkspaceRoot, path: str) -> None:
    assert refusal_of(root.read_file, path, 10).code is ErrorCode.FILE_NOT_FOUND
    assert root.digest(path) is None


def test_a_link_to_a_file_is_refused_wherever_it_leads(root: WorkspaceRoot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root.path / "inside").write_text("inside")
    for name, target in [("out", tmp_path / "secret"), ("in", "inside"), ("dangling", "nowhere"), ("loop", "loop")]:
        (root.path / name).symlink_to(target)
        refusal = refusal_of(root.read_file, name, 100)
        assert (refusal.code, refusal.detail) == (
            ErrorCode.PATH_REFUSED,
            "the path names a link, not a regular file",
        )
        assert refusal_of(root.digest, name).code is ErrorCode.PATH_REFUSED


def test_a_linked_folder_is_not_entered_even_if_it_leads_back_inside(root: WorkspaceRoot, tmp_path: Path) -> None:
    (root.path / "real").mkdir()
    (root.path / "real/a.txt").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.txt").write_text("a")
    for name, target in [("in", "real"), ("out", tmp_path / "outside"), ("up", "..")]:
        (root.path / name).symlink_to(target)
        for create in (False, True):
            refusal = refusal_of(root.open_parent, f"{name}/a.txt", create=create)
            assert (refusal.code, refusal.detail) == (
                ErrorCode.PATH_REFUSED,
                f"'{name}' cannot be entered: it is a link, and links are not followed",
            )


def test_the_root_s_own_name_may_be_a_link(root: WorkspaceRoot, tmp_path: Path) -> None:
    (root.path / "a.txt").write_text("a")
    (tmp_path / "alias").symlink_to(root.path)
    assert WorkspaceRoot(tmp_path / "alias").read_file("a.txt", 10) == b"a"


def test_a_folder_whose_name_continues_the_root_s_is_outside(root: WorkspaceRoot, tmp_path: Path) -> None:
    (tmp_path / "dir-evil").mkdir()
    (tmp_path / "dir-evil/a.txt").write_text("evil")
    assert refusal_of(root.read_file, "../dir-evil/a.txt", 10).code is ErrorCode.PATH_REFUSED
    assert refusal_of(root.read_file, "-evil/a.txt", 10).code is ErrorCode.FILE_NOT_FOUND


def test_a_pipe_is_refused_without_waiting_for_a_writer(root: WorkspaceRoot) -> None:
    os.mkfifo(root.path / "pipe")
    assert refusal_of(root.read_file, "pipe", 10).detail == "the path names a pipe, not a regular file"


def test_a_socket_and_a_folder_are_refused(root: WorkspaceRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    (root.path / "folder").mkdir()
    monkeypatch.chdir(root.path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert refusal_of(root.read_file, "socket", 10).detail == "the path names a socket, not a regular file"
    assert refusal_of(root.read_file, "folder", 10).detail == "the path names a folder, not a regular file"


def test_a_device_is_refused() -> None:
    assert refusal_of(WorkspaceRoot(Path("/dev")).read_file, "zero", 10).detail == (
        "the path names a device, not a regular file"
    )


def test_a_file_on_the_way_is_not_a_folder(root: WorkspaceRoot) -> None:
    (root.path / "file").write_text("x")
    refusal = refusal_of(root.read_file, "file/x", 10)
    assert (refusal.code, refusal.detail) == (
        ErrorCode.PATH_REFUSED,
        "'file' cannot be entered: it is a regular file (Not a directory)",
    )


def test_missing_folders_are_made_only_when_asked_for(root: WorkspaceRoot) -> None:
    assert refusal_of(root.open_parent, "a/b/c.txt").code is ErrorCode.FILE_NOT_FOUND
    assert not (root.path / "a").exists()
    os.close(root.open_parent("a/b/c.txt", create=True))
    assert (root.path / "a/b").is_dir()


def test_a_missing_root_is_not_ready(tmp_path: Path) -> None:
    assert refusal_of(WorkspaceRoot(tmp_path / "nowhere").read_file, "a", 10).code is ErrorCode.NOT_READY


def test_of_two_unicode_twins_on_disk_only_the_composed_one_can_be_named(root: WorkspaceRoot) -> None:
    (root.path / "re\u0301sume\u0301.txt").write_text("decomposed")
    if (root.path / "r\u00e9sum\u00e9.txt").exists():
        pytest.skip("this file system takes both spellings for one name")
    assert root.digest("r\u00e9sum\u00e9.txt") is None
    assert refusal_of(root.refuse_twin, "r\u00e9sum\u00e9.txt").detail == (
        "a file of the same name in another Unicode spelling exists already"
    )
    (root.path / "r\u00e9sum\u00e9.txt").write_text("composed")
    assert root.read_file("r\u00e9sum\u00e9.txt", 100) == b"composed"
    assert refusal_of(root.read_file, "re\u0301sume\u0301.txt", 100).code is ErrorCode.PATH_REFUSED


def test_no_descriptor_stays_open_after_refusals(root: WorkspaceRoot) -> None:
    (root.path / "a").mkdir()
    (root.path / "a/link").symlink_to("nowhere")
    os.mkfifo(root.path / "a/pipe")
    before = len(list(Path("/dev/fd").iterdir()))
    for path in ["a/link", "a/pipe", "a/missing", "a/link/x", "b/c/d", "../x"] * 20:
        refusal_of(root.read_file, path, 10)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_folder_swapped_for_a_link_while_reading_never_leads_outside(root: WorkspaceRoot, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.txt").write_text("outside")
    (root.path / "real").mkdir()
    (root.path / "real/a.txt").write_text("inside")
    (root.path / "link").symlink_to(tmp_path / "outside")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("real", "link"):
                (root.path / name).rename(root.path / "here")
                (root.path / "here").rename(root.path / name)

    swapper = threading.Thread(target=swap)
    swapper.start()
    found: Counter[str] = Counter()
    try:
        for _ in range(3000):
            try:
                found[root.read_file("here/a.txt", 100).decode()] += 1
            except Refusal as refusal:
                found[refusal.code] += 1
    finally:
        done.set()
        swapper.join()
    assert "outside" not in found
    assert found["inside"] > 0
    assert found["PATH_REFUSED"] > 0


def test_the_systems_own_state_is_never_entered_under_whatever_name(tmp_path: Path) -> None:
    state = tmp_path / "workspace" / "deep" / "state"
    (state / "records").mkdir(parents=True)
    (state / "seal.key").write_text("secret")
    root = WorkspaceRoot(tmp_path / "workspace", closed=(state,))

    for path in ("deep/state/seal.key", "deep/state/records/one.json", "deep/state/new.txt"):
        with pytest.raises(Refusal) as refusal:
            root.read_file(path, 100)
        assert refusal.value.code == "PATH_REFUSED"
    (tmp_path / "workspace" / "deep" / "other.txt").write_text("open")
    assert root.read_file("deep/other.txt", 100) == b"open"
