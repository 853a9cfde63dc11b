"""What a Jupyter server answers of sessions, and whom it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import rlmnb
from rlmnb import Session
from rlmnb.files import Lock
from tests.conftest import append_many, notebook_of
from tests.lab.serving import TOKEN, Server, heard, served

DEMO = "demo/session.ipynb"


def edit(session: str, number: int, source: str) -> None:
    notebook = json.loads(notebook_of(session).read_text())
    notebook["cells"][number - 1]["source"] = [source]
    notebook_of(session).write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")


def test_sessions_are_listed_as_the_command_does_by_the_servers_paths(server, run_json):
    append_many("demo", 1)
    rlmnb.append("other", {"source": "y = 1"})
    rows = server.get("sessions").json
    shown = {row["id"]: row["path"] for row in rows}
    for row in rows:
        row["path"] = row.pop("notebook")
    assert rows == run_json("sessions")
    assert shown == {"demo": DEMO, "other": "other/session.ipynb"}


def test_status_judges_as_the_command_does(server, run, run_json):
    ids = [rlmnb.append("demo", {"source": each}) for each in ("x = 1", "y = x", "z = 5")]
    ids.append(rlmnb.append("demo", {"source": 'tools.Bash(command="ls")'}))
    assert run("replay", "demo", "1-3", "--force").returncode == 0
    edit("demo", 1, "x = 2")
    found = server.get("status", path=DEMO).json
    told = run_json("status", "demo")
    assert {row["cell_id"]: row["causes"] for row in found["cells"] if row["causes"]} == {
        each["cell_id"]: each["causes"] for each in told["stale"]
    }
    assert [row["cell_id"] for row in found["cells"]] == ids
    assert [row["state"] for row in found["cells"]] == ["stale", "stale", "fresh", "fresh"]
    assert [row["effectful"] for row in found["cells"]] == [False, False, False, True]
    assert found["summary"] == {"fresh": 2, "stale": 2, "failed": 0, "tokens_saved": 0}
    assert found["path"] == DEMO
    assert found["session_id"] == "demo"
    assert found["live"] is False
    assert found["appended"] == Session.open("demo").index["generation"]
    by_id = server.get("status", session="demo").json
    assert by_id == found


def test_a_failed_cell_and_one_that_never_ran_are_told_apart(server, run):
    rlmnb.append("demo", {"source": "1 / 0"})
    assert run("replay", "demo", "--force").returncode == 1
    notebook = server.contents(DEMO)
    new = {"cell_type": "code", "id": "mine", "metadata": {}, "source": "q = 1"}
    notebook["cells"].append({**new, "outputs": [], "execution_count": None})
    assert server.save(DEMO, notebook).status == 200
    states = [row["state"] for row in server.get("status", path=DEMO).json["cells"]]
    assert states == ["failed", "never"]


def test_a_recorded_model_call_says_what_it_saves(server):
    call = {"source": "llm_query('why?')", "type": "llm_call", "output": "because"}
    rlmnb.append("demo", {**call, "metadata": {"tokens_used": 120, "model": "m"}})
    found = server.get("status", path=DEMO).json
    assert [(row["calls"], row["tokens_saved"]) for row in found["cells"]] == [(1, 120)]
    assert found["summary"]["tokens_saved"] == 120


def test_a_plan_is_what_the_dry_run_says(server, run_json):
    rlmnb.append("demo", {"source": "x = 1"})
    rlmnb.append("demo", {"source": 'tools.Bash(command="ls")'})
    edit("demo", 1, "x = 2")
    edit("demo", 2, 'tools.Bash(command="pwd")')
    assert server.post("plan", {"path": DEMO}).json == run_json("replay", "demo", "--dry-run")
    chosen = server.post("plan", {"path": DEMO, "selector": "1"}).json
    assert chosen == run_json("replay", "demo", "1", "--dry-run")
    assert len(chosen["would_execute"]) == 1


def test_a_replay_runs_aside_tells_of_each_cell_and_changes_the_notebook(server):
    ids = [rlmnb.append("demo", {"source": each}) for each in ("x = 1", "print(x + 1)")]
    edit("demo", 1, "x = 41")
    begun = server.post("replay", {"path": DEMO})
    assert begun.status == 202
    with server.events(f"replay/{begun.json['id']}") as events:
        told = list(events)
    assert told[:-1] == [
        ("progress", {"cell_id": cell_id, "state": state})
        for cell_id in ids
        for state in ("running", "fresh")
    ]
    assert told[-1][0] == "done"
    assert told[-1][1]["executed"] == ids
    assert Session.open("demo").cell(2).outputs[0]["text"] == ["42\n"]
    with server.events(f"replay/{begun.json['id']}") as again:
        assert list(again) == told


def test_effects_are_left_alone_unless_they_are_allowed(server):
    rlmnb.append("demo", {"source": 'tools.Bash(command="echo one > made")'})
    edit("demo", 1, 'tools.Bash(command="echo two > made")')
    for allowed, executed in ((False, 0), (True, 1)):
        begun = server.post("replay", {"path": DEMO, "allow_effects": allowed})
        with server.events(f"replay/{begun.json['id']}") as events:
            assert len(heard(events, "done")["executed"]) == executed
        assert Path("made").exists() == allowed


def test_a_second_replay_of_a_notebook_is_refused_and_the_first_can_be_interrupted(server):
    first = rlmnb.append("demo", {"source": "x = 1"})
    rlmnb.append("demo", {"source": "import time\nwhile x: time.sleep(0.01)"})
    edit("demo", 1, "x = 2")
    begun = server.post("replay", {"path": DEMO})
    with server.events(f"replay/{begun.json['id']}") as events:
        assert next(events) == ("progress", {"cell_id": first, "state": "running"})
        assert next(events)[1]["state"] == "fresh"
        assert next(events)[1]["state"] == "running"
        second = server.post("replay", {"path": DEMO})
        assert second.status == 409
        assert second.json["hint"]
        running = server.get("status", path=DEMO).json["cells"][1]
        assert running["state"] == "running"
        interrupted = server.ask("DELETE", f"/rlmnb/api/replay/{begun.json['id']}")
        assert interrupted.status == 204
        assert "interrupted" in heard(events, "error")["message"]
    cells = server.get("status", path=DEMO).json["cells"]
    assert [row["state"] for row in cells] == ["fresh", "stale"]
    assert server.post("replay", {"path": DEMO, "selector": "1"}).status == 202


def test_a_replay_ends_with_its_server(root):
    append_many("demo", 1)
    with served(root) as server:
        edit("demo", 1, "import time\nwhile True: time.sleep(0.01)")
        begun = server.post("replay", {"path": DEMO})
        with server.events(f"replay/{begun.json['id']}") as events:
            assert heard(events, "progress")["state"] == "running"
        server.kill()
    with Lock(str(root / "demo" / ".replay.lock"), timeout=30):
        pass  # nobody replays it any more


def test_the_graph_comes_in_three_forms(server, run):
    append_many("demo", 1)
    rlmnb.append("demo", {"source": "print(x0)"})
    whole = server.get("graph", path=DEMO, format="json")
    assert len(whole.json["nodes"]) == 2
    assert server.get("graph", path=DEMO, format="mermaid").text.startswith("flowchart")
    drawn = server.get("graph", path=DEMO, format="svg")
    assert drawn.text.startswith("<svg")
    assert drawn.headers["Content-Type"].startswith("image/svg+xml")


def test_listeners_hear_of_appends_what_became_stale_and_of_replays(server):
    append_many("demo", 1)
    with server.events(f"events?path={DEMO}") as events:
        assert heard(events, "ready")["appended"] == 1
        rlmnb.append("demo", {"source": "print(x0)"})
        assert heard(events, "changed")["appended"] == 2
        notebook = server.contents(DEMO)
        notebook["cells"][0]["source"] = "x0 = 7"
        assert server.save(DEMO, notebook).status == 200
        while not (status := heard(events, "status"))["stale"]:
            pass
        assert status["summary"]["stale"] == 2
        assert status["stale"][0]["causes"] == ["source edited"]
        server.post("replay", {"path": DEMO})
        assert len(heard(events, "replayed")["executed"]) == 2
        while heard(events, "status")["summary"]["stale"]:
            pass


# refusals


def requests(server: Server, headers: dict[str, str]) -> list[int]:
    body = {"path": DEMO}
    return [
        server.get("sessions", headers).status,
        server.get("status", headers, path=DEMO).status,
        server.post("plan", body, headers).status,
        server.post("replay", body, headers).status,
        server.get("replay/0123456789abcdef", headers).status,
        server.get("graph", headers, path=DEMO).status,
        server.get("events", headers, path=DEMO).status,
    ]


def test_nobody_is_answered_without_the_token(server):
    append_many("demo", 1)
    assert requests(server, {}) == [403] * 7
    assert requests(server, {"Authorization": "token wrong"}) == [403] * 7
    assert server.ask("DELETE", "/rlmnb/api/replay/0123456789abcdef", headers={}).status == 403


def signed_in(server: Server) -> dict[str, str]:
    """Sign in as a browser does, and return its cookies."""
    cookies: list[str] = []
    for address in ("/login", f"/login?token={TOKEN}"):
        answer = server.ask("GET", address, headers={"Cookie": "; ".join(cookies)})
        cookies += [each.split(";")[0] for each in answer.headers.get_all("Set-Cookie") or []]
    return {"Cookie": "; ".join(cookies)}


def test_a_page_of_another_origin_is_refused_although_the_browser_is_signed_in(server):
    append_many("demo", 1)
    mine = signed_in(server)
    assert server.get("status", mine, path=DEMO).status == 200
    foreign = {**mine, "Origin": "http://evil.example", "Referer": "http://evil.example/page"}
    assert all(status in (403, 404) for status in requests(server, foreign))


def test_a_page_of_another_origin_is_refused_although_it_has_the_token(server):
    append_many("demo", 1)
    known = {"Authorization": f"token {TOKEN}"}
    own = {**known, "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.get("status", own, path=DEMO).status == 200
    foreign = {**known, "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert requests(server, foreign) == [404] * 7
    assert requests(server, {**known, "Origin": "http://evil.example"}) == [404] * 7
    # Our own page, as it looks behind a proxy that gives the server another name.
    renamed = {**known, "Origin": "http://front.example", "Sec-Fetch-Site": "same-origin"}
    assert server.get("status", renamed, path=DEMO).status == 200


def test_an_origin_that_the_server_allows_is_let_in_with_the_token(root):
    append_many("demo", 1)
    friend = {"Authorization": f"token {TOKEN}", "Origin": "http://friend.example"}
    with served(root, **{"ServerApp.allow_origin": "http://friend.example"}) as server:
        assert server.get("status", friend, path=DEMO).status == 200


def test_a_browser_that_is_signed_in_needs_the_xsrf_token_to_change_anything(server):
    append_many("demo", 1)
    mine = signed_in(server)
    body = {"path": DEMO}
    assert server.post("replay", body, mine).status == 403
    assert server.post("plan", body, mine).status == 403
    token = next(each for each in mine["Cookie"].split("; ") if each.startswith("_xsrf="))
    allowed = {**mine, "X-XSRFToken": token.removeprefix("_xsrf=")}
    assert server.post("plan", body, allowed).status == 200


READER = """from jupyter_server.auth.authorizer import Authorizer

class Reader(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return action == "read"
"""


def test_who_may_only_read_cannot_replay(root, tmp_path, monkeypatch):
    append_many("demo", 1)
    (tmp_path / "only_reading.py").write_text(READER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with served(root, **{"ServerApp.authorizer_class": "only_reading.Reader"}) as server:
        assert server.get("status", path=DEMO).status == 200
        assert server.post("plan", {"path": DEMO}).status == 200
        refused = server.post("replay", {"path": DEMO})
        assert refused.status == 403
        assert set(refused.json) == {"message", "hint"}
        assert server.ask("DELETE", "/rlmnb/api/replay/0123456789abcdef").status == 403


def test_paths_outside_are_refused_however_they_are_written(server, root, tmp_path):
    append_many("demo", 1)
    outside = tmp_path / "outside.ipynb"
    outside.write_bytes(notebook_of("demo").read_bytes())
    (root / "link.ipynb").symlink_to(outside)
    (root / "leading").symlink_to(tmp_path)
    bad = {
        "../outside.ipynb": 400,
        "demo/../../outside.ipynb": 400,
        "..%2foutside.ipynb": 404,
        str(outside): 404,
        "link.ipynb": 403,
        "leading/outside.ipynb": 403,
        "demo/journal.jsonl": 400,
        "demo": 400,
        "": 400,
        "no\0thing.ipynb": 400,
        "x" * 9000 + ".ipynb": 400,
        "gone.ipynb": 404,
    }
    for path, status in bad.items():
        for answer in (
            server.get("status", path=path),
            server.get("graph", path=path),
            server.get("events", path=path),
            server.post("plan", {"path": path}),
            server.post("replay", {"path": path}),
        ):
            # The server itself takes control characters out of an address.
            assert answer.status in ((400, 404) if "\0" in path else (status,)), (path, answer.text)
            assert set(answer.json) == {"message", "hint"}
            assert "Traceback" not in answer.text
    for session in ("../demo", "/etc/passwd", "x/y", "nobody", str(notebook_of("demo"))):
        assert server.get("status", session=session).status in (400, 404), session
    assert not (tmp_path / ".rlmnb").exists()


def test_a_session_outside_the_servers_root_is_reached_by_its_id(root, tmp_path):
    append_many("demo", 1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with served(elsewhere) as server:
        assert server.get("sessions").json[0]["path"] is None
        found = server.get("status", session="demo").json
        assert found["path"] is None
        assert found["summary"]["fresh"] == 1


def test_what_makes_no_sense_is_answered_with_what_to_do(server):
    append_many("demo", 1)
    for body, status in (
        (b"{not json", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 413),
        (b"[" * 60_000, 400),
        ({"path": 5}, 400),
        ({"path": DEMO, "selector": ["1"]}, 400),
        ({"path": DEMO, "selector": "99"}, 404),
        ({"path": DEMO, "selector": "nonsense:::"}, 404),
        ({"path": DEMO, "allow_effects": "yes"}, 400),
        ({"path": DEMO, "selector": "1," * 15_000}, 400),
        ({"path": DEMO, "x": "y" * 70_000}, 413),
    ):
        for what in ("plan", "replay"):
            answer = server.post(what, body)
            assert answer.status in (status, 400, 404), (body[:40], answer.status, answer.text)
            assert set(answer.json) == {"message", "hint"}
    assert server.get("graph", path=DEMO, format="exe").status == 400
    assert server.get("graph", path=DEMO, cell="cell_nosuch00").status == 404
    assert server.get("replay/0123456789abcdef").status == 404
    assert server.get("status").status == 400


def test_a_broken_notebook_is_told_of_as_one(server):
    append_many("demo", 1)
    notebook_of("demo").write_text("{ broken")
    answer = server.get("status", path=DEMO)
    assert answer.status == 422
    assert "doctor" in answer.json["hint"]


def test_looking_at_a_notebook_that_is_not_ours_leaves_nothing_beside_it(server, root):
    append_many("demo", 1)
    plain = root / "plain.ipynb"
    plain.write_bytes(notebook_of("demo").read_bytes())
    for what in ("status", "graph", "events"):
        assert server.get(what, path="plain.ipynb").status == 404
    content = server.contents("plain.ipynb")
    assert server.save("plain.ipynb", content).status == 200
    assert not (root / ".rlmnb").exists()


def test_a_server_finds_it_without_any_step_after_the_installation(tmp_path):
    clean = {"JUPYTER_CONFIG_DIR": str(tmp_path / "none"), "HOME": str(tmp_path)}
    listed = subprocess.run(
        [sys.executable, "-m", "jupyter_server.extension.serverextension", "list"],
        env={**os.environ, **clean},
        capture_output=True,
        text=True,
    )
    plain = re.sub(r"\x1b\[\d*m", "", listed.stdout + listed.stderr)
    assert "rlmnb.lab enabled" in plain
