"""How a kind of secret is written: a literal that must be there and a pattern that starts at it.

Every pattern runs from one place over a bounded stretch, or over a run that no second start can
lie in: the time is linear in the text, whatever it is. Nothing is compiled before its literal is
found. The last group that took part in a match is the secret.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    # Told the text and the match: whether it is a secret, or the kind of secret it is.
    Check = Callable[[str, re.Match[str]], "bool | str | None"]

# What may stand before a token besides a character that no token has: an escaped line break or
# character, an encoded one, a colour, the mark of a line in a diff.
ESCAPED = (
    r"|(?<=[A-Fa-f0-9nrtm+-])"
    r"(?:(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\x[0-9a-fA-F]{2})"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=\[\d;\d\dm)|(?<=^[-+])|(?<=\\n[-+]))"
)
EDGE = r"(?:(?<![A-Za-z0-9_])" + ESCAPED + ")"
DASHED_EDGE = r"(?:(?<![A-Za-z0-9_-])" + ESCAPED + ")"
# Short literals occur in base64 by chance; there a slash or plus before them is no edge.
FAR_EDGE = r"(?:(?<![A-Za-z0-9_+/=-])|(?<=[A-Za-z]=)" + ESCAPED + ")"
LETTERS = "[A-Za-z0-9]"
WORD = r"[A-Za-z0-9_-]"
OPEN = r"\\*[\"'`]?\]?\s{0,4}(?:=>|:=|=|:)\s{0,4}\\*[\"'`]?"
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class Kind:
    """One kind of secret: where to look for it and how it is written."""

    __slots__ = (
        "_compiled", "_edge", "_pattern", "anchors", "check", "each", "folded", "name", "near",
        "offset",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        anchors: str,
        pattern: str,
        *,
        check: "Check | None" = None,
        folded: bool = False,
        near: str = "",
        offset: int = 0,
        edge: str = "",
        each: "Kind | None" = None,
    ) -> None:
        self.name = name
        self.anchors = tuple(anchors.split(" "))
        self._pattern = pattern
        # Before a token and one of its literals; those are part of its pattern then.
        self._edge = edge
        # What is looked for, over and over, in all that the pattern matches.
        self.each = each
        self.check = check
        self.folded = folded
        # Words like "token" are everywhere; one of these signs must follow before it counts.
        self.near = near
        self.offset = offset
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> "re.Pattern[str]":
        """The pattern, compiled when it is first needed."""
        if self._compiled is None:
            import re

            pattern = self._pattern
            if self._edge:
                pattern = f"{self._edge}((?:{'|'.join(map(re.escape, self.anchors))}){pattern})"
            flags = re.MULTILINE | (re.IGNORECASE if self.folded else 0)
            self._compiled = re.compile(pattern, flags)
        return self._compiled


def token(name: str, prefixes: str, body: str, *, edge: str = "", near: str = "") -> Kind:
    """Make a kind whose tokens begin with one of a few literals."""
    edge = edge or (DASHED_EDGE if WORD in body else EDGE)
    return Kind(name, prefixes, body, near=near, edge=edge)
