"""Make the three sessions beside this file: `rlmnb run`, answered by a scripted model.

    python examples/make_sessions.py

What is kept of them is what a person would hand on: cells, outputs, why each step was taken and
what the model answered. What only this machine knows (paths, traces of runs) is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat

from rlmnb import digest
from rlmnb.testing.chat_api import ChatRequest, chat_api, model_directory

HERE = Path(__file__).resolve().parent
# Of a record, what holds anywhere.
KEPT = (
    *("schema_version", "cell_id", "type", "status", "created_at", "completed_at", "input"),
    *("output", "dependencies", "calls", "source_hash", "context_hash", "output_hash"),
    *("trace", "metadata", "escalation_reason"),
)
SYNTHESIZE = {
    "action": "SYNTHESIZE",
    "goal": "say it in a sentence",
    "rationale": "enough was found",
}

SESSIONS: dict[str, dict[str, Any]] = {
    "sum-weights": {
        "question": "What is the total weight?",
        "context": ["data/weights.json"],
        "decisions": [
            {
                "action": "EXECUTE",
                "goal": "add the numbers up",
                "rationale": "a sum is computed, not guessed",
                "code": "step_1 = f\"{sum(context['numbers'])} {context['unit']}\"",
                "final": True,
            }
        ],
        "answers": {},
    },
    "release-date": {
        "question": "When is the release, and who announces it?",
        "context": ["data/meetings"],
        "decisions": [
            {
                "action": "DECOMPOSE",
                "goal": "what each meeting says about the release",
                "rationale": "the answer may have changed from one meeting to the next",
                "question": "What is said about the date and the announcement of the release?",
            },
            SYNTHESIZE,
        ],
        "answers": {
            "[data/meetings/friday.txt]": "It is moved to the 21st; Ann writes the announcement.",
            "[data/meetings/monday.txt]": "It is planned for the 14th if the tests are green.",
            "[data/meetings/wednesday.txt]": "Moving it by a week is fine with everybody.",
            "Combine the answers": "First the 14th, then moved to the 21st. Ann announces it.",
            "step by step": "The release is on the 21st, and Ann announces it.",
        },
    },
    "spending": {
        "question": "Which team spends most, and on what?",
        "context": ["data/spending.csv"],
        "decisions": [
            {
                "action": "EXECUTE",
                "goal": "sums by team",
                "rationale": "sums are computed",
                "code": "step_1 = {}\nfor row in context:\n"
                "    step_1[row['team']] = step_1.get(row['team'], 0) + row['amount']",
            },
            {
                "action": "EXECUTE",
                "goal": "sums by team",
                "rationale": "amounts are texts: the first attempt failed",
                "code": "step_2 = {}\nfor row in context:\n"
                "    step_2[row['team']] = step_2.get(row['team'], 0) + int(row['amount'])",
            },
            {
                "action": "SUBCALL",
                "goal": "what the money went to",
                "rationale": "remarks are to be read, not counted",
                "question": "What is the money spent on?",
                "code": "[row for row in context if row['team'] == max(step_2, key=step_2.get)]",
            },
            {
                "action": "DIRECT",
                "goal": "read the remarks",
                "rationale": "there are two of them",
            },
            SYNTHESIZE,
        ],
        "answers": {
            "step by step": "The blue team spends most: 320, nearly all on an idle server.",
            "What is the money spent on?": "A server that nobody uses any more, and cake.",
        },
    },
}


def model(session: dict[str, Any]) -> Any:
    """Return the model of a session: its decisions one after the other, its answers by rule."""
    left = iter(session["decisions"])

    def script(request: ChatRequest) -> Any:
        if "What is the next step?" in request.prompt:
            return next(left)
        return next(said for key, said in session["answers"].items() if key in request.prompt)

    return script


def make(name: str, session: dict[str, Any]) -> None:
    """Ask the question, and keep the session beside this file."""
    with tempfile.TemporaryDirectory() as place, chat_api(model(session)) as api:
        shutil.copytree(HERE / "data", Path(place) / "data")
        notebook = Path(place) / f"{name}.ipynb"
        nbformat.write(nbformat.v4.new_notebook(), notebook)
        environment = {
            **os.environ,
            "RLMNB_HOME": os.path.join(place, "home"),
            "LLM_USER_PATH": model_directory(os.path.join(place, "llm"), api),
        }
        subprocess.run(
            [
                *(sys.executable, "-m", "rlmnb", "run", session["question"]),
                *("--context", *session["context"]),
                *("--session", notebook.name, "--model", "scripted"),
            ],
            cwd=place,
            env=environment,
            check=True,
        )
        whole = nbformat.read(notebook, 4)
    nbformat.write(portable(whole, name), HERE / f"{name}.ipynb")


def portable(whole: Any, name: str) -> Any:
    """Leave out what holds only on the machine that a session was made on."""
    for cell in whole.cells:
        if "rlmnb" in cell.metadata:
            record = {key: cell.metadata.rlmnb[key] for key in KEPT if key in cell.metadata.rlmnb}
            cell.metadata.rlmnb = {**record, "context_hash": digest.context_hash(record)}
    like = nbformat.read(HERE / "count-words.ipynb", 4).metadata
    kept = {
        "kernelspec": {
            "display_name": "Python 3 (rlmnb)",
            "language": "python",
            "name": "rlmnb",
        },
        "language_info": like.language_info,
        "rlmnb": {**whole.metadata.rlmnb, "appended": 0},
    }
    for key in ("cwd", "project", "branch", "head_commit"):
        kept["rlmnb"]["session"].pop(key, None)
    kept["rlmnb"]["session"]["id"] = name
    whole.metadata = nbformat.from_dict(kept)
    return whole


if __name__ == "__main__":
    for each in sys.argv[1:] or SESSIONS:
        make(each, SESSIONS[each])
