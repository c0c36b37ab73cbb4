"""Blobs are what their name says, or an error: on a disk and in a bucket."""

from __future__ import annotations

import hashlib
from pathlib import Path

import obstore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.activities.store.blobs import BlobStore
from counterfoil.models.common import BlobRef
from counterfoil.models.errors import CounterfoilError, ErrorCode, Unavailable

CONTENT = b"the prepared workbook"
HEX = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(params=["file", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """A local directory, and a store that behaves as a bucket does."""
    return BlobStore(f"file://{tmp_path / 'blobs'}" if request.param == "file" else "memory:///")


def place(folder: Path) -> Path:
    return folder / "blobs" / "sha256" / HEX[:2] / HEX


@pytest.fixture
def local(tmp_path: Path) -> BlobStore:
    return BlobStore(f"file://{tmp_path / 'blobs'}")


def test_what_is_put_can_be_had_back_under_its_digest(blobs: BlobStore) -> None:
    ref = blobs.put(CONTENT, "text/plain")

    assert ref == BlobRef(digest=f"sha256:{HEX}", size_bytes=21, media_type="text/plain")
    assert blobs.get(ref) == CONTENT


@pytest.mark.parametrize("content", [b"", b"\x00", bytes(range(256)) * 4096])
def test_any_bytes_can_be_kept(blobs: BlobStore, content: bytes) -> None:
    assert blobs.get(blobs.put(content)) == content


def test_putting_the_same_bytes_again_changes_nothing(local: BlobStore, tmp_path: Path) -> None:
    local.put(CONTENT)
    before = place(tmp_path).stat()

    local.put(CONTENT)

    assert (place(tmp_path).stat().st_mtime_ns, place(tmp_path).stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert [path.name for path in place(tmp_path).parent.iterdir()] == [HEX]


def test_a_name_nobody_put_is_missing(blobs: BlobStore) -> None:
    with pytest.raises(CounterfoilError) as caught:
        blobs.get(BlobRef(digest="sha256:" + "0" * 64, size_bytes=1))

    assert caught.value.code == ErrorCode.BLOB_MISSING
    assert caught.value.subject == "sha256:" + "0" * 64


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bit=st.integers(0, len(CONTENT) * 8 - 1))
def test_a_single_flipped_bit_is_noticed(local: BlobStore, tmp_path: Path, bit: int) -> None:
    ref = local.put(CONTENT)
    damaged = bytearray(CONTENT)
    damaged[bit // 8] ^= 1 << bit % 8
    place(tmp_path).write_bytes(damaged)

    with pytest.raises(CounterfoilError) as caught:
        local.get(ref)
    assert caught.value.code == ErrorCode.BLOB_CORRUPT
    place(tmp_path).write_bytes(CONTENT)


@pytest.mark.parametrize("kept", [0, 1, 20])
def test_a_truncated_blob_is_noticed_and_replaced_when_it_is_put_again(
    local: BlobStore, tmp_path: Path, kept: int
) -> None:
    ref = local.put(CONTENT)
    place(tmp_path).write_bytes(CONTENT[:kept])

    with pytest.raises(CounterfoilError) as caught:
        local.get(ref)
    assert caught.value.code == ErrorCode.BLOB_CORRUPT

    assert local.get(local.put(CONTENT)) == CONTENT


def test_bytes_grown_at_the_end_are_noticed(local: BlobStore, tmp_path: Path) -> None:
    ref = local.put(CONTENT)
    place(tmp_path).write_bytes(CONTENT + b"\n")

    with pytest.raises(CounterfoilError) as caught:
        local.get(ref)
    assert caught.value.code == ErrorCode.BLOB_CORRUPT


def test_other_bytes_in_a_bucket_are_noticed() -> None:
    blobs = BlobStore("memory:///")
    ref = blobs.put(CONTENT)
    obstore.put(blobs._store, f"sha256/{HEX[:2]}/{HEX}", b"the prepared w0rkbook")

    with pytest.raises(CounterfoilError) as caught:
        blobs.get(ref)
    assert caught.value.code == ErrorCode.BLOB_CORRUPT


def test_a_directory_that_cannot_be_written_is_unavailable(local: BlobStore, tmp_path: Path) -> None:
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("a file where the directory was")

    with pytest.raises(Unavailable) as caught:
        local.put(CONTENT)
    assert (caught.value.code, caught.value.subject) == (ErrorCode.STORE_UNAVAILABLE, "blobs")


def test_a_bucket_that_does_not_answer_is_unavailable() -> None:
    blobs = BlobStore(
        "s3://bucket/prefix",
        config={
            "endpoint": "http://127.0.0.1:1",
            "region": "us-east-1",
            "access_key_id": "a",
            "secret_access_key": "b",
        },
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )

    with pytest.raises(Unavailable) as caught:
        blobs.put(CONTENT)
    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE


def test_a_directory_with_odd_characters_in_its_name_works(tmp_path: Path) -> None:
    folder = tmp_path / "my blobs é 100%"
    blobs = BlobStore(folder.as_uri())

    assert blobs.get(blobs.put(CONTENT)) == CONTENT
    assert (folder / "sha256").is_dir()
