"""Content-addressed bytes over obstore: a local directory, or a bucket. The address is the sha256 of the content.

Reading checks the digest every time: bytes that are not what their name says are `BLOB_CORRUPT`, never returned.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.errors import CounterfoilError, ErrorCode, Unavailable


class BlobStore:
    """Where bytes live. `put` is idempotent; `get` returns exactly what was put or raises."""

    def __init__(self, url: str, **options: Any) -> None:
        """`url` is `file:///directory` or anything obstore opens (`s3://bucket/prefix`, with its environment)."""
        self._directory: Path | None = None
        if url.startswith("file:"):
            self._directory = Path(url2pathname(urlsplit(url).path))
            self._directory.mkdir(parents=True, exist_ok=True)
            self._store: ObjectStore = LocalStore(prefix=self._directory)
        else:
            self._store = from_url(url, **options)

    def put(self, data: bytes, media_type: str = "application/octet-stream") -> BlobRef:
        """Keep bytes; durable when this returns. Raises `Unavailable` (`STORE_UNAVAILABLE`)."""
        digest = digest_bytes(data)
        path = _path(digest)
        ref = BlobRef(digest=digest, size_bytes=len(data), media_type=media_type)
        try:
            if not self._has(path, len(data)):
                obstore.put(self._store, path, data)
                self._make_durable(path)
        except (BaseError, OSError) as error:
            raise _away(error) from error
        return ref

    def get(self, ref: BlobRef) -> bytes:
        """The bytes. Raises `CounterfoilError` (`BLOB_MISSING`, `BLOB_CORRUPT`) or `Unavailable`."""
        try:
            data = bytes(obstore.get(self._store, _path(ref.digest)).bytes())
        except FileNotFoundError as error:
            raise CounterfoilError(
                ErrorCode.BLOB_MISSING,
                "the blob store has no such bytes",
                subject=ref.digest,
                remedy="restore the blob store from the same moment as the database",
            ) from error
        except (BaseError, OSError) as error:
            raise _away(error) from error
        if digest_bytes(data) != ref.digest:
            raise CounterfoilError(
                ErrorCode.BLOB_CORRUPT,
                "the stored bytes are not the ones that were put there",
                subject=ref.digest,
                remedy="restore this blob from a backup; nothing was served from it",
            )
        return data

    def digests(self, *, older_than: datetime) -> list[str]:
        """The digests of all bytes that were put before an instant. Raises `Unavailable`."""
        try:
            return sorted(
                "sha256:" + str(found["path"]).rpartition("/")[2]
                for page in obstore.list(self._store, prefix="sha256")
                for found in page
                if found["last_modified"] < older_than
            )
        except (BaseError, OSError) as error:
            raise _away(error) from error

    def remove(self, digest: str) -> None:
        """Remove bytes; harmless where there are none. Raises `Unavailable`."""
        try:
            obstore.delete(self._store, _path(digest))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise _away(error) from error

    def _has(self, path: str, size_bytes: int) -> bool:
        # A shorter file is a write that a crash cut off: put it again.
        try:
            return obstore.head(self._store, path)["size"] == size_bytes
        except FileNotFoundError:
            return False

    def _make_durable(self, path: str) -> None:
        if self._directory is None:
            return
        place = self._directory / path
        for target in (place, place.parent):
            descriptor = os.open(target, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _path(digest: str) -> str:
    hexadecimal = digest.removeprefix("sha256:")
    return f"sha256/{hexadecimal[:2]}/{hexadecimal}"


def _away(error: BaseException) -> Unavailable:
    return Unavailable(
        ErrorCode.STORE_UNAVAILABLE,
        f"the blob store does not answer: {str(error).splitlines()[0][:300]}",
        subject="blobs",
        remedy="check that it can be reached and written; this is tried again by itself",
    )
