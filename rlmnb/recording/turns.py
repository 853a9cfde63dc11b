"""What is asked and what is answered: prompts, what they are for, and what they cost."""

import os
import time

from rlmnb.capture import calls
from rlmnb.digest import of_text
from rlmnb.recording.starting import Starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_GOAL = 200
_LONGEST_ORIGINAL = 1000
_LONGEST_TITLE = 80
# Said by the client to the model, and typed by nobody.
_NOT_TYPED = (
    *("<task-notification", "<command-", "<local-command", "<system-reminder"),
    "[Request interrupted by user",
)


class Turns(Starting):
    """Events that begin and end a turn."""

    def _prompt(self) -> None:
        self._take_title()
        prompt = self._event.text("prompt")
        if not prompt or prompt.lstrip().startswith(_NOT_TYPED):
            return
        prompt_id = self._event.text("prompt_id")
        told = of_text(prompt)
        known = self._progress.text("prompt_id"), self._progress.text("prompt_hash")
        if prompt_id is not None and known == (prompt_id, told):
            return  # told of already, by another installation of these hooks
        self._progress.keep("prompt_hash", told)
        goal = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
        goal = goal[:_LONGEST_GOAL]
        self._progress.keep("goal", goal)
        self._progress.keep("task", None)
        named = {} if prompt_id is None else {"prompt_id": prompt_id}
        if prompt_id is not None:
            self._progress.keep("prompt_id", prompt_id)
        from rlmnb.format.conversation import quoted

        self._append(self._text_cell("prompt", quoted(prompt), **named))
        session = self._what_for(prompt, goal)
        session |= named
        self._set(session=session, activation=self._activation(prompt))

    def _what_for(self, prompt: str, goal: str) -> "dict[str, Any]":
        """Return what the session's state says of its goal, its title and what it is about."""
        from rlmnb.capture.words import count_words, keywords

        counts: dict[str, Any] = self._progress.table("words")
        count_words(prompt, counts)
        session: dict[str, Any] = {"goal": goal, "keywords": keywords(counts)}
        about = self._about()
        if not self._progress.value("titled"):
            self._progress.keep("titled", True)
            if not about.get("title"):
                session |= {"title": goal[:_LONGEST_TITLE], "title_from": "prompt"}
        if not self._progress.value("begun"):
            # Once only: what a person made of it, removing it included, stays.
            self._progress.keep("begun", True)
            if not about.get("original_goal"):
                session["original_goal"] = prompt.strip()[:_LONGEST_ORIGINAL]
        return session

    def _activation(self, prompt: str) -> "dict[str, Any]":
        """Return whether the prompt is one for recursive work, and why."""
        from rlmnb.capture.complexity import MODES, complexity_of, is_active, why_active

        now = self._section("activation")
        mode = now.get("activation_mode") or os.environ.get("RLMNB_ACTIVATION")
        mode = mode if mode in MODES else "complexity"
        judged = complexity_of(prompt)
        before = now.get("rlm_active") is True
        return {
            "activation_mode": mode,
            "activation_reason": why_active(mode, judged)[:1000],
            "complexity_score": judged.score,
            "rlm_active": is_active(mode, judged.score, before=before),
        }

    def _stop(self) -> None:
        # A turn that failed ends too, with what the person was shown.
        said = self._event.text("last_assistant_message") or self._event.text("error")
        self._find_parent()
        self._usage(self._event.text("transcript_path"))
        if said:
            self._append(self._text_cell("answer", said))
        self._set(lifecycle={"phase": "stopped"})

    def _session_end(self) -> None:
        # The last answer may not have been in the transcript yet when the turn stopped.
        self._usage(self._event.text("transcript_path"))
        super()._session_end()
        if not self._together:
            self._fold()

    def _usage(self, path: "str | None", *, subagent: bool = False) -> None:
        """Take in from a transcript what each model has used since it was last read."""
        if not path or not calls.is_path(path) or not os.path.isabs(path):
            return
        from rlmnb.capture.redaction import clean
        from rlmnb.capture.usage import usage_since

        totals = self._progress.table("totals")
        used, reasons = usage_since(
            self._progress, path, lambda: time.perf_counter() > self._deadline
        )
        # What is imported has its reasons already; to look for old cells takes the whole notebook.
        known = {} if self._together else self._progress.table("calls")
        for call, reason in clean(reasons).items():
            if isinstance(known.get(call), str):
                record = {"trace": {"rationale": reason}}
                self._write({"op": "update", "cell_id": known[call], "record": record})
        for model, amounts in used.items():
            counted = totals.get(model)
            total = counted if isinstance(counted, dict) else {}
            below = {"subagent_tokens": amounts["tokens"]} if subagent else {}
            for key, amount in {**amounts, **below}.items():
                total[key] = total.get(key, 0) + amount
            totals[model] = total
        if used:
            tokens = sum(each.get("tokens", 0) for each in totals.values())
            self._set(budget={"total_tokens_used": tokens, "by_model": dict(totals)})
