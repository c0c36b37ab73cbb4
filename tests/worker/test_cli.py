"""The command line against a real stack: documents, tables, errors and exit statuses."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.cli import COUNTERFOIL, QUESTION, Dev, counterfoil, environment, file_request

ERROR_FIELDS = {"code", "subject", "detail", "remedy"}


def error_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The one JSON object on stderr; stdout must be empty then."""
    assert done.stdout == ""
    found = json.loads(done.stderr)
    assert set(found) == ERROR_FIELDS
    return dict(found)


def create(dev: Dev, request: str, status: int = 0) -> dict[str, Any]:
    return dict(dev.json("operation", "create", "-", "--wait", "--timeout", "30", stdin=request, status=status))


def unknown_effect(dev: Dev, key: str, log: Path) -> dict[str, Any]:
    """An operation that acted and whose reply was lost."""
    request = file_request(
        key,
        "x",
        capability="line.add",
        route_id="speechless.v1",
        input={"log": str(log)},
        # Until it is attested its resource stays locked: one of its own, so that other tests go on.
        resources=[{"kind": "remote_entity", "system": "lines", "identity": key}],
    )
    return create(dev, request, status=12)


# reading the help


def test_the_version_is_told_without_loading_temporal_or_the_database(tmp_path: Path):
    done = counterfoil("--version", state_dir=tmp_path)

    assert (done.returncode, done.stdout) == (0, "counterfoil 0.1.0\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["operation", "--help"], ["session", "--help"], ["dev", "-h"], ["--version"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]):
    program = (
        "import sys\nfrom counterfoil.worker.cli import status_of\n"
        f"status = status_of({arguments!r})\n"
        "heavy = {'temporalio', 'sqlalchemy', 'sqlmodel'} & set(sys.modules)\n"
        "print(status, sorted(heavy), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stderr == "0 []\n"


def seconds_of(*arguments: str, state_dir: Path) -> float:
    began = time.monotonic()
    counterfoil(*arguments, state_dir=state_dir)
    return time.monotonic() - began


def test_help_comes_within_a_second(tmp_path: Path):
    took = min(seconds_of("--help", state_dir=tmp_path) for _ in range(3))

    assert took < 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["operation"],
        ["operation", "show"],
        ["operation", "resolve", "op-1", "maybe", "--revision", "1", "--summary", "s"],
        ["operation", "list", "--state", "asleep"],
        ["operation", "list", "--limit", "0"],
        ["dev", "--port", "70000"],
    ],
)
def test_a_wrong_command_line_ends_with_status_two(arguments: list[str], tmp_path: Path):
    assert counterfoil(*arguments, state_dir=tmp_path).returncode == 2


def test_a_wrong_command_line_is_told_to_programs_as_json(tmp_path: Path):
    done = counterfoil("operation", "show", "--json", state_dir=tmp_path)

    assert done.returncode == 2
    assert error_of(done)["code"] == "BAD_COMMAND"


# where there is nothing


def test_a_state_directory_without_a_stack_is_named_with_what_to_do(tmp_path: Path):
    done = counterfoil("operation", "list", "--json", state_dir=tmp_path / "none")

    assert done.returncode == 7
    error = error_of(done)
    assert (error["code"], error["subject"]) == ("STORE_UNAVAILABLE", str(tmp_path / "none"))
    assert "counterfoil dev" in error["remedy"]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("DATABASE_URL", "mysql://localhost/x"),
        ("SEAL_KEY", "env:NOT_THERE"),
        ("SCOPES", "omnipotence"),
    ],
)
def test_a_wrong_setting_ends_with_status_two(setting: str, value: str, tmp_path: Path):
    (tmp_path / "counterfoil.db").touch()

    command = ["operation", "cancel", "op-1", "--reason", "x", "--json"]

    done = counterfoil(*command, state_dir=tmp_path, **{f"COUNTERFOIL_{setting}": value})

    assert (done.returncode, error_of(done)["code"]) == (2, "SETTINGS_INVALID")


def test_a_database_without_tables_is_brought_up_to_date_by_migrate(tmp_path: Path):
    (tmp_path / "counterfoil.db").touch()

    before = counterfoil("operation", "list", "--json", state_dir=tmp_path)
    migrated = counterfoil("migrate", "--json", state_dir=tmp_path)
    after = counterfoil("operation", "list", "--json", state_dir=tmp_path)

    assert (before.returncode, error_of(before)["code"]) == (9, "STORE_SCHEMA")
    assert "counterfoil migrate" in error_of(before)["remedy"]
    assert json.loads(migrated.stdout)["database"] == f"sqlite:///{tmp_path}/counterfoil.db"
    assert json.loads(after.stdout) == {"operations": []}


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path):
    (tmp_path / "counterfoil.db").write_text("this is no database, it is a text that is long enough to be looked at")

    done = counterfoil("operation", "list", "--json", state_dir=tmp_path)

    assert (done.returncode, error_of(done)["code"]) == (7, "STORE_UNAVAILABLE")


# creating and reading


def test_an_operation_is_created_once_and_verified(dev: Dev):
    request = file_request("once", "once.txt")

    first = create(dev, request)
    again = create(dev, request)

    assert (first["state"], first["verification"]) == ("completed", "verified")
    assert again["operation_id"] == first["operation_id"]
    assert (dev.workspace / "once.txt").read_text() == "hello\n"


def test_the_same_key_for_another_request_is_a_conflict(dev: Dev):
    create(dev, file_request("conflict", "conflict.txt"))

    done = dev.run("operation", "create", "-", "--json", stdin=file_request("conflict", "other.txt"))

    assert (done.returncode, error_of(done)["code"]) == (5, "IDEMPOTENCY_CONFLICT")
    assert not (dev.workspace / "other.txt").exists()


@pytest.mark.parametrize(
    ("request_", "code", "status"),
    [
        ("", "BAD_REQUEST", 2),
        ("[1, 2]", "BAD_REQUEST", 2),
        ("[" * 100_000, "BAD_REQUEST", 2),
        ('{"owner": NaN}', "BAD_REQUEST", 2),
        (file_request("bad", "a.txt", surprise=1), "BAD_REQUEST", 2),
        (file_request("bad", "a.txt", route_id="nobody.v1"), "UNKNOWN_ROUTE", 4),
        (file_request("bad", "a.txt", capability="file.burn"), "UNKNOWN_CAPABILITY", 4),
        (file_request("bad", "../a.txt"), "PATH_REFUSED", 3),
        (file_request("bad", "a.txt", constraints={"deadline": "2020-01-01T00:00:00Z"}), "DEADLINE_PASSED", 3),
        (file_request("bad", "a.txt", depends_on=["op-1"]), "DEPENDENCY_NOT_FOUND", 4),
        (file_request("bad", "a.txt", text="x" * 3_000_000), "INPUT_TOO_LARGE", 2),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_nothing_is_created(dev: Dev, request_: str, code: str, status: int):
    before = dev.json("operation", "list")

    done = dev.run("operation", "create", "-", "--json", stdin=request_)

    assert (error_of(done)["code"], done.returncode) == (code, status)
    assert dev.json("operation", "list") == before


def test_a_request_file_that_is_not_there_is_a_bad_request(dev: Dev, tmp_path: Path):
    done = dev.run("operation", "create", str(tmp_path / "none.json"), "--json")

    assert (done.returncode, error_of(done)["code"]) == (2, "BAD_REQUEST")


def test_an_operation_that_does_not_exist_is_not_found(dev: Dev):
    done = dev.run("operation", "show", "op-none", "--json")
    for_people = dev.run("operation", "show", "op-none")

    assert (done.returncode, error_of(done)["code"]) == (4, "NOT_FOUND")
    assert for_people.returncode == 4
    assert "NOT_FOUND (op-none)" in for_people.stderr
    assert "→ `counterfoil operation list` shows those there are" in for_people.stderr


def test_the_list_can_be_narrowed(dev: Dev):
    create(dev, file_request("mine", "mine.txt", owner={"workspace": "w9", "session": "s9"}))
    create(dev, file_request("held", "h.txt", owner={"workspace": "w9", "session": "s8"}, on_create="hold"), status=11)

    by_session = dev.json("operation", "list", "--session", "s9")["operations"]
    by_workspace = dev.json("operation", "list", "--workspace", "w9")["operations"]
    by_state = dev.json("operation", "list", "--workspace", "w9", "--state", "held", "--state", "failed")["operations"]
    limited = dev.json("operation", "list", "--limit", "1")["operations"]

    assert [one["session"] for one in by_session] == ["s9"]
    assert {one["session"] for one in by_workspace} == {"s8", "s9"}
    assert [one["state"] for one in by_state] == ["held"]
    assert len(limited) == 1


# deciding


def test_an_awaited_decision_is_shown_with_the_change_and_the_command_that_answers(dev: Dev):
    created = create(dev, file_request("ask", "ask.txt", decision=QUESTION), status=11)
    operation_id, digest = created["operation_id"], created["proposal_digest"]

    shown = dev.run("operation", "show", operation_id)
    command = f"counterfoil operation decide {operation_id} approve --digest {digest}"

    assert "Create it?" in shown.stdout
    assert "hello" in shown.stdout
    assert command in shown.stdout.splitlines()
    assert dev.run(*command.split()[1:]).returncode == 0
    assert dev.run("operation", "watch", operation_id).returncode == 0


def test_without_a_digest_nothing_is_decided_unless_somebody_confirms(dev: Dev):
    created = create(dev, file_request("confirm", "confirm.txt", decision=QUESTION), status=11)
    operation_id = created["operation_id"]

    unasked = dev.run("operation", "decide", operation_id, "approve", "--json")
    state_then = dev.json("operation", "show", operation_id)["state"]
    nonsense = dev.run("operation", "decide", operation_id, "approve", "--digest", "sha256:00", "--json")
    wordy = dev.run("operation", "cancel", operation_id, "--reason", "x" * 20_000, "--json")
    confirmed = dev.run("operation", "decide", operation_id, "approve", "--yes")

    assert (unasked.returncode, error_of(unasked)["code"]) == (2, "BAD_COMMAND")
    assert (nonsense.returncode, error_of(nonsense)["code"]) == (2, "BAD_COMMAND")
    assert (wordy.returncode, error_of(wordy)["code"]) == (2, "BAD_COMMAND")
    assert state_then == "awaiting_decision"
    assert confirmed.returncode == 0
    assert created["proposal_digest"] in confirmed.stdout


def test_at_a_terminal_the_proposal_is_shown_and_the_answer_asked_for(dev: Dev):
    created = create(dev, file_request("terminal", "terminal.txt", decision=QUESTION), status=11)

    said, status = at_terminal(dev, "y\n", "operation", "decide", created["operation_id"], "decline")

    assert "Create it?" in said
    assert "Decline this proposal?" in said
    assert status == 0
    assert dev.json("operation", "show", created["operation_id"])["state"] == "declined"


def test_another_proposal_than_the_one_that_stands_is_not_approved(dev: Dev):
    created = create(dev, file_request("other", "other-proposal.txt", decision=QUESTION), status=11)
    digest = "sha256:" + "0" * 64

    done = dev.run("operation", "decide", created["operation_id"], "approve", "--digest", digest, "--json")

    assert (done.returncode, error_of(done)["code"]) == (5, "PROPOSAL_MISMATCH")


def test_a_principal_without_the_review_scope_may_not_decide(dev: Dev):
    created = create(dev, file_request("scope", "scope.txt", decision=QUESTION), status=11)

    done = dev.run(
        "operation",
        "decide",
        created["operation_id"],
        "approve",
        "--yes",
        "--json",
        COUNTERFOIL_SCOPES="read,operate",
    )

    assert (done.returncode, error_of(done)["code"]) == (6, "SCOPE_MISSING")


# the other commands


def test_a_held_operation_is_prepared_then_executed(dev: Dev):
    created = create(dev, file_request("steps", "steps.txt", on_create="hold"), status=11)
    operation_id = created["operation_id"]

    dev.json("operation", "prepare", operation_id)
    prepared = dev.run("operation", "watch", operation_id)
    dev.json("operation", "execute", operation_id)
    executed = dev.run("operation", "watch", operation_id)

    assert (prepared.returncode, executed.returncode) == (11, 0)
    assert (dev.workspace / "steps.txt").exists()


def test_a_cancelled_operation_ends_without_its_effect(dev: Dev):
    created = create(dev, file_request("cancel", "cancel.txt", on_create="hold"), status=11)
    operation_id = created["operation_id"]

    answer = dev.json("operation", "cancel", operation_id, "--reason", "not needed")

    assert (answer["status"], answer["state"]) == ("applied", "cancelled")
    assert dev.run("operation", "watch", operation_id).returncode == 10
    assert not (dev.workspace / "cancel.txt").exists()


def test_reconciling_a_completed_operation_looks_at_the_target_again(dev: Dev):
    created = create(dev, file_request("again", "again.txt"))
    (dev.workspace / "again.txt").write_text("something else")

    dev.json("operation", "reconcile", created["operation_id"])
    done = dev.run("operation", "watch", created["operation_id"])

    assert done.returncode == 13
    assert dev.json("operation", "show", created["operation_id"])["verification"] == "contradicted"


def test_watch_streams_what_happened_as_json_lines_and_ends_with_the_operation(dev: Dev):
    created = create(dev, file_request("lines", "lines.txt"))

    done = dev.run("operation", "watch", created["operation_id"], "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert [line["entry"]["version"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert lines[0]["entry"]["kind"] == "created"
    assert lines[-1]["operation"]["state"] == "completed"


def test_watch_gives_up_when_told_how_long(dev: Dev):
    created = create(dev, file_request("patience", "patience.txt", on_create="hold"), status=11)

    done = dev.run("operation", "watch", created["operation_id"], "--follow", "--timeout", "1", "--json")

    assert done.returncode == 8
    assert json.loads(done.stderr)["code"] == "TIMED_OUT"


def test_an_unknown_effect_is_shown_with_what_was_sent_and_attested_by_the_command_it_shows(dev: Dev, tmp_path: Path):
    created = unknown_effect(dev, "unknown", tmp_path / "log")
    operation_id = created["operation_id"]

    shown = dev.run("operation", "show", operation_id)
    [command] = [line for line in shown.stdout.splitlines() if line.startswith("counterfoil") and " applied " in line]

    assert command == (
        f"counterfoil operation resolve {operation_id} applied --revision {created['revision']} --summary '…'"
    )
    assert f'"log": "{tmp_path / "log"}"' in shown.stdout
    assert "External id: line-7" in shown.stdout
    assert "Late replies: none" in shown.stdout
    assert dev.run(*command.split()[1:-1], "I saw the line").returncode == 0
    assert dev.run("operation", "watch", operation_id).returncode == 13
    assert dev.json("operation", "show", operation_id)["attested"] is True


def test_an_attestation_repeats_its_answer_and_another_of_the_same_revision_is_refused(dev: Dev, tmp_path: Path):
    created = unknown_effect(dev, "attest", tmp_path / "log")
    command = ["operation", "resolve", created["operation_id"]]
    revision = ["--revision", str(created["revision"])]

    first = dev.json(*command, "stopped", *revision, "--summary", "it was stopped")
    again = dev.json(*command, "stopped", *revision, "--summary", "it was stopped")
    other = dev.run(*command, "applied", *revision, "--summary", "no, it happened", "--json")

    assert (first["status"], again["status"]) == ("applied", "repeated")
    assert (other.returncode, error_of(other)["code"]) == (5, "STALE_REVISION")


def test_repair_lists_nothing_where_the_store_is_not_behind_and_refuses_to_doubt_it(dev: Dev):
    created = create(dev, file_request("sound", "sound.txt"))

    assert dev.json("repair") == {"operations": []}
    done = dev.run("repair", created["operation_id"], "--json")
    assert (done.returncode, error_of(done)["code"]) == (3, "NOT_POSSIBLE")


def test_what_a_session_may_do_with_a_tool_is_said_by_an_administrator_and_listed(dev: Dev):
    nobody = dev.run("session", "permit", "fresh", "send", "deny", "--json")
    assert (error_of(nobody)["code"], nobody.returncode) == ("NOT_FOUND", 4)
    reviewer = dev.run("session", "permit", "fresh", "send", "allow", "--json", COUNTERFOIL_SCOPES="review")
    assert (error_of(reviewer)["code"], reviewer.returncode) == ("SCOPE_MISSING", 6)

    said = dev.json("session", "permit", "fresh", "send", "ask", "--account", "a", "--workspace", "w")
    assert (said["session"], said["tool"], said["account_id"], said["permission"]) == ("fresh", "send", "a", "ask")
    dev.json("session", "permit", "fresh", "send", "deny")

    listed = dev.json("session", "permissions", "fresh")["permissions"]
    assert [(one["account_id"], one["permission"]) for one in listed] == [(None, "deny"), ("a", "ask")]
    shown = dev.run("session", "permissions", "fresh").stdout
    assert [word for word in ("send", "any", "deny", "ask") if word not in shown] == []
    assert "Nothing was said" in dev.run("session", "permissions", "another").stdout


def test_registering_search_attributes_is_safe_to_repeat(dev: Dev):
    assert dev.json("register") == {"namespace": "default", "added": []}


# hostile surroundings


def test_text_from_outside_cannot_move_the_cursor_or_pass_for_markup(dev: Dev):
    objective = "look \u001b[2J\u001b]0;owned\u0007 [bold red]here[/] \u202egnp"
    created = create(dev, file_request("hostile", "hostile.txt", objective=objective))

    shown = dev.run("operation", "show", created["operation_id"]).stdout

    assert "\u001b" not in shown
    assert "\u202e" not in shown
    assert "\\u001b[2J" in shown
    assert "[bold red]here[/]" in shown


@pytest.mark.parametrize("arguments", [["operation", "list"], ["operation", "list", "--json"], ["--help"]])
def test_a_reader_that_goes_away_is_no_failure(dev: Dev, arguments: list[str]):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [COUNTERFOIL, *arguments],
            env=environment(dev.state_dir),
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=30,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_could_not_be_written_is_a_failure(dev: Dev):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COUNTERFOIL, "operation", "list", "--json"],
            env=environment(dev.state_dir),
            stdout=full,
            check=False,
            timeout=30,
        )

    assert done.returncode == 1


def at_terminal(dev: Dev, answer: str, *arguments: str) -> tuple[str, int]:
    """Run a command at a terminal of its own, answer its question, and return all it said."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COUNTERFOIL, *arguments], env=environment(dev.state_dir), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    answered = False
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not answered and b"[y/N]" in said:
            os.write(ours, answer.encode())
            answered = True
    os.close(ours)
    return said.decode(), process.wait(30)


def test_a_session_is_paused_resumed_and_cancelled_as_a_whole(dev: Dev):
    owner = {"workspace": "w", "session": "whole"}
    dev.json("operation", "create", "-", stdin=file_request("whole-1", "whole-1.txt", owner=owner, on_create="hold"))

    paused = dev.json("session", "pause", "whole", "--reason", "lunch")
    shown = dev.run("session", "show", "whole")
    resumed = dev.json("session", "resume", "whole")
    cancelled = dev.json("session", "cancel", "whole", "--reason", "enough")
    late = dev.run("operation", "create", "-", "--json", stdin=file_request("whole-2", "whole-2.txt", owner=owner))
    follow_up = file_request("whole-3", "whole-3.txt", owner=owner | {"epoch": 1})
    done = dev.json("operation", "create", "-", "--wait", stdin=follow_up)

    assert (paused["status"], paused["paused"]) == ("applied", True)
    assert "epoch 0, paused: nothing new is dispatched" in shown.stdout
    assert (resumed["status"], resumed["paused"]) == ("applied", False)
    assert (cancelled["status"], cancelled["epoch"], cancelled["operations"]) == ("applied", 1, 1)
    assert (late.returncode, json.loads(late.stderr)["code"]) == (5, "OWNER_CANCELLED")
    assert (done["state"], done["verification"]) == ("completed", "verified")
    assert dev.json("session", "show", "whole")["epoch"] == 1
    assert dev.run("session", "show", "nobody").returncode == 4
