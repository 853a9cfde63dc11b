"""Take secrets out of what an agent did, before the first byte of it is written.

Each is replaced by its kind and eight digits of its hash: equal secrets stay equal, and a second
pass changes nothing. Most text holds none of the literals that secrets begin with; finding that out
needs no regular expression, and a hook then never loads `re`.
"""

import sys

from rlmnb import digest
from rlmnb.capture.credible import is_plain_password, kind_of_name, kind_of_value
from rlmnb.capture.secretkinds import KINDS, PRIVATE
from rlmnb.capture.secretpatterns import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    Span = tuple[int, int, str]
    Search = tuple[Kind, list[str]]

_MARK = "[REDACTED:"
_SHORTEST = 8
_DEEPEST = 5000
_NEAR = 40
_HEADERS = ("authorization", "proxy-authorization", "cookie", "set-cookie")
_ACCOUNTS = ("user", "username", "login", "email", "account")
_SHORT_TEXT = 1 << 13
# The signs that literals have beside letters: one look for each spares most of the others.
_SIGNS = '_-.:/=~$"'


def redact_text(text: str) -> str:
    """Return the text with every secret and private part replaced; the same object if none is."""
    return _redacted(text, _present(text))


def redact(value: "Any") -> "Any":
    """Return a JSON value with the secrets in its texts, keys and named values replaced."""
    try:
        searches = _present("\n".join(_texts(value)))
        return _walk(value, searches)
    except RecursionError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEPEST))
        try:
            return _walk(value, _present("\n".join(_texts(value))))
        finally:
            sys.setrecursionlimit(limit)


def mark(kind: str, secret: str) -> str:
    """Return what stands in the place of a secret: equal secrets have equal marks."""
    return f"{_MARK}{kind}:{digest.of_text(secret)[7:15]}]"


def _folded(text: str) -> str:
    """Return the text in small letters, each at its old place."""
    # The one letter whose small form is two characters long.
    return (text if text.isascii() else text.replace("\u0130", "I")).lower()


def _present(text: str) -> "list[Search]":
    """Return the kinds of which a literal is in the text, with those literals."""
    if len(text) < _SHORTEST:
        return []
    # No literal has a space in it, and most words of a long text come more than once.
    words = text if len(text) < _SHORT_TEXT else "\n".join(set(text.split()))
    folded = _folded(words)
    absent = {sign for sign in _SIGNS if sign not in words}
    found = []
    for kind in (PRIVATE, *KINDS):
        haystack = folded if kind.folded else words
        anchors = [
            anchor for anchor in kind.anchors if absent.isdisjoint(anchor) and anchor in haystack
        ]
        if anchors:
            found.append((kind, anchors))
    return found


def _redacted(text: str, searches: "Sequence[Search]") -> str:
    if len(text) < _SHORTEST:
        return text
    private = bool(searches) and searches[0][0] is PRIVATE
    kinds = searches[1:] if private else searches
    before = ""
    # What one secret hid can be the edge of another: look again until nothing is found.
    while searches and text != before:
        before = text
        if private:
            text = _without_private(text)
        folded = _folded(text)
        spans = [span for kind, anchors in kinds for span in _spans(text, folded, kind, anchors)]
        if spans:
            text = _replaced(text, sorted(spans))
    return text


def _spans(text: str, folded: str, kind: "Kind", anchors: "list[str]") -> "Iterator[Span]":
    haystack = folded if kind.folded else text
    for anchor in anchors:
        at = haystack.find(anchor)
        while at >= 0:
            after = at + len(anchor)
            match = None
            if not kind.near or _follows(kind.near, haystack[after : after + _NEAR]):
                match = kind.compiled.match(text, max(0, at + kind.offset))
            if match is not None:
                start, end = match.span(match.lastindex or 0)
                if kind.each is None:
                    yield from _judged(text, kind, match)
                else:
                    for part in kind.each.compiled.finditer(text, start, end):
                        yield from _judged(text, kind.each, part)
                # No second start inside a run that was looked at: this keeps the time linear.
                after = max(after, end)
            at = haystack.find(anchor, after)


def _judged(text: str, kind: "Kind", match: "re.Match[str]") -> "Iterator[Span]":
    start, end = match.span(match.lastindex or 0)
    verdict = kind.check(text, match) if kind.check is not None else True
    if verdict and not _touches_mark(text, start, end):
        yield start, end, verdict if isinstance(verdict, str) else kind.name


def _follows(signs: str, text: str) -> bool:
    line = text.partition("\n")[0]
    return any(sign in line for sign in signs)


def _touches_mark(text: str, start: int, end: int) -> bool:
    """Tell whether a span holds a replacement, or is part of one."""
    opened = text.rfind(_MARK, max(0, start - 40), end)
    return opened >= start or (opened >= 0 and "]" not in text[opened:start])


def _replaced(text: str, spans: "list[Span]") -> str:
    """Replace sorted spans; those that overlap count as one, of the first one's kind."""
    parts, done = [], 0
    start, end, kind = spans[0]
    for span in [*spans[1:], (len(text) + 1, 0, "")]:
        if span[0] < end:
            end = max(end, span[1])
            continue
        parts += [text[done:start], mark(kind, _essence(kind, text[start:end]))]
        done = end
        start, end, kind = span
    return "".join([*parts, text[done:]])


def _essence(kind: str, secret: str) -> str:
    """Return what of a secret is hashed: the same however its place made it be written."""
    if kind == "url-password" and "%" in secret:
        from urllib.parse import unquote

        return unquote(secret)
    if kind != "private-key":
        return secret
    import re

    # A plus may be the mark of a diff, and the n after a backslash is a line break.
    plain = re.sub(r"\\+[nrt]", "\n", secret).replace("+", "")
    return "".join(re.findall(r"[A-Za-z0-9/=]{12,}", plain))


def _without_private(text: str) -> str:
    """Replace what stands between private marks, nested ones too, to the end if left open."""
    parts, done, depth, opened = [], 0, 0, 0
    for tag in _private_tags(text):
        if not tag[1]:
            opened = opened if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                parts += [text[done:opened], mark("private", text[opened : tag.end()])]
                done = tag.end()
    if depth:
        parts += [text[done:opened], mark("private", text[opened:])]
        done = len(text)
    return "".join([*parts, text[done:]])


def _private_tags(text: str) -> "list[re.Match[str]]":
    """Return the tags, without a type in code or a tag that is spoken of: nothing closes these."""
    tags = list(PRIVATE.compiled.finditer(text))
    return [
        tag
        for tag, after in zip(tags, [*tags[1:], None], strict=False)
        if tag[1] or not _is_no_tag(text, tag) or (after is not None and after[1])
    ]


def _is_no_tag(text: str, tag: "re.Match[str]") -> bool:
    """Tell whether a tag is a type, as in `Local<Private>`, or has quotes around it."""
    before = text[max(0, tag.start() - 1) : tag.start()]
    quoted = before in ("`", '"', "'") and text[tag.end() : tag.end() + 1] == before
    return quoted or before.isalnum() or before in ("_", ".") or tag[0].endswith("/>")


def _texts(value: "Any") -> "Iterator[str]":
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield key
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _walk(value: "Any", searches: "Sequence[Search]") -> "Any":
    if isinstance(value, str):
        return _redacted(value, searches)
    if isinstance(value, dict):
        return _walked_dict(value, searches)
    if isinstance(value, (list, tuple)):
        lines = _walked_lines(value, searches)
        return [_walk(item, searches) for item in value] if lines is None else lines
    return value


def _walked_dict(value: "dict[Any, Any]", searches: "Sequence[Search]") -> "dict[Any, Any]":
    walked = {}
    for key, item in value.items():
        name = key
        if key == "value" and isinstance(said := value.get("name", value.get("key")), str):
            # The shape in which services list their settings.
            name = said
        new = _walk(item, searches)
        if isinstance(new, str) and isinstance(name, str) and _MARK not in name:
            new = _named(name, new, searches, among=value)
        walked[_redacted(key, searches) if isinstance(key, str) else key] = new
    return walked


def _named(name: str, value: str, searches: "Sequence[Search]", *, among: "Collection[Any]") -> str:
    """Return the value of a key without the secret that only the keys around it tell of."""
    if name.lower() in _HEADERS:
        # As it stands in a request, where the patterns know it.
        return _redacted(f"{name}: {value}", searches)[len(name) + 2 :]
    kind = None if _MARK in value else kind_of_value(name, value)
    if kind is None and is_plain_password(value) and any(user in among for user in _ACCOUNTS):
        # A word like any other, were there not somebody whose password it is.
        kind = kind_of_name(name)
        kind = kind if kind == "password" else None
    return value if kind is None else mark(kind, value)


def _walked_lines(value: "Sequence[Any]", searches: "Sequence[Search]") -> "list[str] | None":
    """Return a list of lines without the secrets that reach over several, None if none does."""
    if not searches or len(value) < 2 or not all(isinstance(line, str) for line in value):
        return None
    ended = all(line.endswith("\n") for line in value[:-1])
    between = "" if ended else "\n"
    text = between.join(value)
    if "-----BEGIN" not in text and "private" not in text.lower():
        return None
    redacted = _redacted(text, searches)
    if redacted == between.join(_redacted(line, searches) for line in value):
        return None
    return redacted.splitlines(keepends=ended)
