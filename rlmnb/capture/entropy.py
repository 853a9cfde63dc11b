"""Texts that look random and that no known kind of secret explains. Only for those who ask for it.

Chance has no mark by which it could be known: this also takes out some ids and keys that open
nothing. Without regular expressions, because a hook may be asked to do it.
"""

from itertools import pairwise
from math import log2

from rlmnb.capture.credible import is_placeholder
from rlmnb.capture.secrets import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOKEN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_APART = {code: " " for code in range(128) if chr(code) not in _TOKEN}
_SHORTEST, _LONGEST = 24, 256
_LEAST_BITS = 4.0
# Out of four neighbours, one pair at least changes between small letters, capitals and digits.
_LEAST_CHANGES = 0.25
_LEAST_DIGITS = 2
# Ids of messages and calls, checksums of packages, and what was taken out already.
_KNOWN = ("toolu_", "msg_", "req_", "cell_", "sha1-", "sha256-", "sha384-", "sha512-", "REDACTED")
# What names a thing rather than opening one.
_NAMES = ("id", "uuid", "path", "cwd", "base64", "hash", "digest", "object", "signature")


def redact_random(value: "Any") -> "Any":
    """Return a JSON value with what looks random in its texts replaced."""
    if isinstance(value, str):
        return redact_random_text(value)
    if isinstance(value, dict):
        return {
            key: item
            if isinstance(item, str) and isinstance(key, str) and key.lower().endswith(_NAMES)
            else redact_random(item)
            for key, item in value.items()
        }
    return [redact_random(item) for item in value] if isinstance(value, list) else value


def redact_random_text(text: str) -> str:
    """Return a text with what looks random in it replaced."""
    if len(text) < _SHORTEST:
        return text
    for word in sorted(set(text.translate(_APART).split()), key=len, reverse=True):
        if _SHORTEST <= len(word) <= _LONGEST and looks_random(word):
            text = text.replace(word, mark("entropy", word))
    return text


def looks_random(word: str) -> bool:
    """Tell whether a word is one that nobody made up: letters and digits by chance."""
    if word.startswith(_KNOWN) or is_placeholder(word):
        return False
    kinds = [_kind(letter) for letter in word]
    if kinds.count("d") < _LEAST_DIGITS or "u" not in kinds or "l" not in kinds:
        return False
    pairs = pairwise(kinds)
    # A capital before small letters begins a word, as people write them.
    changes = sum(a != b and (a, b) != ("u", "l") for a, b in pairs if "s" not in (a, b))
    return changes >= _LEAST_CHANGES * len(word) and _bits(word) >= _LEAST_BITS


def _kind(letter: str) -> str:
    if letter.isdigit():
        return "d"
    return "u" if letter.isupper() else "l" if letter.islower() else "s"


def _bits(word: str) -> float:
    """Return how many bits each letter of a word tells."""
    shares = [word.count(letter) / len(word) for letter in set(word)]
    return -sum(share * log2(share) for share in shares)
