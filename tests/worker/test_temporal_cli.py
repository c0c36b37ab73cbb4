"""The `temporal` program alone can approve an operation, as docs/operating.md says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from counterfoil.worker.embedded import find_temporal
from support.cli import QUESTION, Dev, environment, file_request

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def test_the_documented_signal_approves_an_operation_and_is_recorded_as_unauthenticated(dev: Dev, tmp_path: Path):
    asked = file_request("signal", "signal.txt", decision=QUESTION)
    created = dev.json("operation", "create", "-", "--wait", stdin=asked, status=11)

    sent = run_documented(dev, created["operation_id"], created["proposal_digest"])
    watched = dev.run("operation", "watch", created["operation_id"])
    decision = dev.json("operation", "show", created["operation_id"])["decision"]

    assert sent.returncode == 0, sent.stderr
    assert watched.returncode == 0, watched.stdout
    assert (decision["verdict"], decision["actor"]["principal"], decision["actor"]["authenticated"]) == (
        "approve",
        "unauthenticated",
        False,
    )
    assert (dev.workspace / "signal.txt").read_text() == "hello\n"


def test_a_signal_for_another_proposal_is_recorded_and_approves_nothing(dev: Dev):
    asked = file_request("wrong", "wrong.txt", decision=QUESTION)
    created = dev.json("operation", "create", "-", "--wait", stdin=asked, status=11)

    sent = run_documented(dev, created["operation_id"], "sha256:" + "0" * 64)
    watched = dev.run("operation", "watch", created["operation_id"], "--follow", "--timeout", "2", "--json")
    kinds = [json.loads(line)["entry"]["kind"] for line in watched.stdout.splitlines()]

    assert sent.returncode == 0, sent.stderr
    assert kinds[-1] == "command_refused"
    assert dev.json("operation", "show", created["operation_id"])["state"] == "awaiting_decision"


def run_documented(dev: Dev, operation_id: str, digest: str) -> subprocess.CompletedProcess[str]:
    """Run the page's own command, with its placeholders filled in."""
    [command] = re.findall(r"```sh\n(temporal workflow signal .*?)```", OPERATING.read_text(), flags=re.DOTALL)
    filled = command.replace("127.0.0.1:7233", dev.stack["temporal"])
    filled = filled.replace("OPERATION_ID", operation_id).replace("PROPOSAL_DIGEST", digest)
    folder = find_temporal().parent
    return subprocess.run(
        ["sh", "-c", filled],
        env=environment(dev.state_dir, PATH=f"{folder}:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
