"""What documents cost, beside bare pycrdt and beside yjs with prosemirror-markdown on node, in the same run.

For documents from 10 KB to 10 MB of text: load, append, compaction, index build, positions, projection, capture. The
last lines are JSON; times are in seconds, ratios to pycrdt's load and encode. Budgets: a capture of 1 MB at most
4 times that, once the worker has the document; 1,000 targets within 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pycrdt import Doc, XmlElement, XmlFragment, XmlText
from rich.console import Console
from rich.table import Table

from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.models.documents.captures import CaptureRequest, Purpose, Reach, WholeDocument
from counterfoil.models.documents.markdown.projection import project
from counterfoil.models.documents.targets import Selection, resolve_target, target_of
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex

ORACLE = Path(__file__).parents[1] / "tests" / "oracle"
SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "naïve",
    "readers",
    "in",
    "東京",
    "wait",
    "for",
    "😀",
    "news",
]
APPENDED = 10_000
TARGETS = 1000


def built(size: int) -> Doc[Any]:
    """A document of paragraphs, headings and lists, a third of them with marks."""
    chance = random.Random(size)
    doc: Doc[Any] = Doc(client_id=1)
    root = doc.get("prosemirror", type=XmlFragment)
    written = 0
    with doc.transaction():
        while written < size:
            text = " ".join(chance.choice(WORDS) for _ in range(45))
            written += len(text)
            node = XmlText(text)
            kind = chance.random()
            if kind < 0.1:
                root.children.append(XmlElement("heading", {"level": 2}, [node]))
            elif kind < 0.25:
                item = XmlElement("list_item", {}, [XmlElement("paragraph", {}, [node])])
                root.children.append(XmlElement("bullet_list", {}, [item]))
            else:
                root.children.append(XmlElement("paragraph", {}, [node]))
            if kind > 0.25 and chance.random() < 0.4:
                start = len(text.split(" ", 1)[0].encode())
                node.format(0, start, {"strong": {}})
    return doc


def typed(doc: Doc[Any], count: int) -> list[bytes]:
    """So many small edits by somebody else, each as its own update."""
    chance = random.Random(7)
    other: Doc[Any] = Doc(client_id=2)
    other.apply_update(doc.get_update())
    root = other.get("prosemirror", type=XmlFragment)
    blocks = [block for block in root.children if block.tag in ("paragraph", "heading")]
    updates: list[bytes] = []
    subscription = other.observe(lambda event: updates.append(event.update))
    for _ in range(count):
        chance.choice(blocks).children[0].insert(0, chance.choice(["x", "yz", "é"]))
    del subscription
    return updates


def median(times: int, work: Callable[[], Any]) -> float:
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def pycrdt_floor(update: bytes) -> float:
    def work() -> bytes:
        doc: Doc[Any] = Doc()
        doc.apply_update(update)
        return doc.get_update()

    return median(5, work)


def node(update: bytes, updates: list[bytes], folder: Path) -> dict[str, float] | None:
    """The same with yjs and prosemirror-markdown; None without node or their packages."""
    (folder / "update").write_bytes(update)
    (folder / "updates").write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in updates))
    try:
        if not (ORACLE / "node_modules").exists():
            subprocess.run(["npm", "ci"], cwd=ORACLE, check=True, capture_output=True, timeout=200)
        told = subprocess.run(
            ["node", "bench.mjs", str(folder / "update"), str(folder / "updates")],
            cwd=ORACLE,
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"without node: {error}", file=sys.stderr)
        return None
    return dict(json.loads(told.stdout))


async def measured(name: str, size: int, appended: int) -> dict[str, Any]:
    doc = built(size)
    update = doc.get_update()
    updates = typed(doc, appended)
    floor = pycrdt_floor(update)
    found: dict[str, Any] = {"size": name, "update_bytes": len(update), "pycrdt_load_and_encode": floor}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        url = f"sqlite:///{folder / 'store.db'}"
        migrate(url)
        database = Database(url)
        documents = DocumentSystem(database, (folder / "blobs").as_uri())
        await documents.log.create("bench", "bench", update=update)
        found |= await _stored(documents, updates)
        found |= _derived(update)
        # prosemirror-markdown takes minutes for 10 MB.
        beside = node(update, updates, folder) if size <= SIZES["1 MB"] else None
        await database.close()
    found["capture_ratio"] = found["capture"] / floor
    found["capture_cold_ratio"] = found["capture_cold"] / floor
    if beside is not None:
        found |= {f"node_{key}": value for key, value in beside.items()}
    return found


async def _stored(documents: DocumentSystem, updates: list[bytes]) -> dict[str, float]:
    found: dict[str, float] = {}
    begun = time.perf_counter()
    for at in range(0, len(updates), 64):
        await asyncio.gather(*(documents.log.append("bench", one) for one in updates[at : at + 64]))
    found["append_each"] = (time.perf_counter() - begun) / max(len(updates), 1)

    async def fresh(reading: Callable[[Any], Any]) -> float:
        documents.documents.forget("bench")
        begun = time.perf_counter()
        await documents.documents.read("bench", reading)
        return time.perf_counter() - begun

    found["load_with_tail"] = await fresh(lambda loaded: loaded.update)
    begun = time.perf_counter()
    await documents.compactor.compact("bench")
    found["compaction"] = time.perf_counter() - begun
    found["load"] = statistics.median([await fresh(lambda loaded: loaded.update) for _ in range(3)])

    async def capture(number: int) -> float:
        request = CaptureRequest(
            capture_id=f"c{number}",
            document_id="bench",
            purpose=Purpose.OTHER,
            choice=WholeDocument(),
            context=Reach.WHOLE,
            changes=Reach.NOTHING,
            egress=Reach.WHOLE,
        )
        begun = time.perf_counter()
        await documents.capturer.capture(request)
        return time.perf_counter() - begun

    documents.documents.forget("bench")
    found["capture_cold"] = await capture(0)
    took = []
    for number in range(1, 6):
        other: Doc[Any] = Doc(client_id=100 + number)
        other.apply_update(await documents.documents.read("bench", lambda loaded: loaded.update))
        since = other.get_state()
        block = other.get("prosemirror", type=XmlFragment).children[0]
        while not isinstance(block, XmlText):
            block = block.children[0]
        block.insert(0, "typed ")
        await documents.log.append("bench", other.get_update(since))
        took.append(await capture(number))
    found["capture"] = statistics.median(took)
    return found


def _derived(update: bytes) -> dict[str, float]:
    index = DocumentIndex.build(update)
    document = index.document()
    text = DocumentText.of(document)
    projection = project(document)
    chance = random.Random(5)
    blocks = [block for block in text.blocks if block.end - block.start > 20]
    targets = []
    for _ in range(TARGETS):
        block = chance.choice(blocks)
        start = text.place_of(block.start + chance.randrange(1, 8))
        end = text.place_of(block.start + chance.randrange(9, 20), forward=False)
        targets.append(target_of(index, text, Selection("bench", start, end)))
    return {
        "index_build": median(3, lambda: DocumentIndex.build(update).document()),
        "resolve_1000": median(3, lambda: [resolve_target(index, text, one) for one in targets]),
        "projection": median(3, lambda: project(document)),
        "projection_again": median(3, lambda: project(document, projection)),
        "losses": float(len(projection.losses)),
    }


async def main(sizes: list[str]) -> None:
    results = [await measured(name, SIZES[name], APPENDED if name == "1 MB" else 500) for name in sizes]
    table = Table("what", *sizes)
    for key in [key for key in results[0] if key != "size"]:
        cells = [result.get(key) for result in results]
        table.add_row(key, *(_shown(key, cell) for cell in cells))
    Console().print(table)
    for result in results:
        print(json.dumps({"benchmark": "documents"} | result))
    whole = next((result for result in results if result["size"] == "1 MB"), None)
    if whole is not None:
        print(json.dumps(_verdict(whole)))


def _shown(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key.endswith(("ratio", "bytes")) or key == "losses":
        return f"{value:,.2f}".removesuffix(".00")
    return f"{value * 1000:,.1f} ms"


def _verdict(whole: dict[str, Any]) -> dict[str, Any]:
    return {
        "benchmark": "documents: budgets",
        "capture_ratio": round(whole["capture_ratio"], 2),
        "capture_within_4": whole["capture_ratio"] <= 4,
        "resolve_1000_seconds": round(whole["resolve_1000"], 4),
        "resolve_within_100_ms": whole["resolve_1000"] <= 0.1,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    asyncio.run(main(parser.parse_args().sizes))
