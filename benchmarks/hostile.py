"""Texts that are made to keep a search for secrets busy."""

from __future__ import annotations

from collections.abc import Iterator

_REPEATED = [
    "a", "=", "-", "\\", "[", "eyJ", "eyJ-", "eyJa.", "eyJaaaaaaaa.", "://", "://a:", "://a:b@",
    "-----BEGIN ", "-----BEGIN PRIVATE " + "KEY-----\n", "token=", "token='", "password:", "sk-",
    "ghp_", "\\n", '\\\\"', "<pri" + "vate>", "</pri" + "vate>", "Bearer ", "basic a", "sid=", "SK",
    "cookie sid=", "MT.", "curl -u a:", "Q~", "AKIA", "secret_key=", "-token=a", "12345678:AA",
    "\u0130token=", "[REDACTED:", "token=a1B2c3D4e5", "heroku", "key-", "authorization: ",
    "zip -", "openssl enc -", "echo a:|", "cookie: a=1;", ":*:", ":*:a:b:c\n", "$6$a$",
    "$argon2i$v=", "identified by '", "create user password 'a", "sqlplus a/", "gpg -",
    "password: aaaaaa\n",
]  # fmt: skip
_FILLINGS = ["\n", "A\n", "A", "\\n", "Aa: b\n", " ", "9\n", "A" * 17 + "\n"]
NAMES = [*map(repr, _REPEATED), *(f"an open key and {filling!r}" for filling in _FILLINGS)]


def texts(size: int) -> Iterator[str]:
    """Yield each text at this length."""
    for piece in _REPEATED:
        yield (piece * (size // len(piece) + 1))[:size]
    for filling in _FILLINGS:
        yield "-----BEGIN PRIVATE " + "KEY-----" + (filling * size)[:size]
