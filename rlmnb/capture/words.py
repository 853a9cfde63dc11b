"""The words of a text, and which of them tell what it is about."""

# Words that any text has, and those that people say to every agent.
_COMMON = frozenset(
    [
        "the",
        "and",
        "for",
        "that",
        "this",
        "with",
        "from",
        "have",
        "has",
        "had",
        "was",
        "were",
        "will",
        "would",
        "can",
        "could",
        "should",
        "not",
        "but",
        "are",
        "you",
        "your",
        "our",
        "its",
        "their",
        "them",
        "they",
        "what",
        "which",
        "when",
        "where",
        "who",
        "how",
        "why",
        "into",
        "onto",
        "than",
        "then",
        "there",
        "here",
        "also",
        "just",
        "like",
        "make",
        "made",
        "use",
        "used",
        "using",
        "does",
        "did",
        "done",
        "get",
        "got",
        "let",
        "now",
        "all",
        "any",
        "some",
        "one",
        "two",
        "out",
        "over",
        "under",
        "about",
        "please",
        "want",
        "need",
        "needs",
        "look",
        "file",
        "files",
        "code",
        "add",
        "new",
        "see",
        "try",
        "sure",
        "such",
        "only",
        "other",
        "more",
        "most",
        "very",
        "each",
        "every",
        "after",
        "before",
        "first",
        "last",
        "still",
        "same",
        "both",
        "between",
        "because",
        "being",
        "been",
        "again",
        "else",
        "even",
        "way",
        "thing",
        "things",
        "work",
        "works",
        "working",
        "tell",
        "give",
        "take",
        "put",
    ]
)
_SHORTEST, _LONGEST = 3, 40
MOST_KEYWORDS = 10


def words_of(text: str) -> "list[str]":
    """Return the words in small letters, without the signs around them."""
    plain = "".join(letter if letter.isalnum() or letter in "_-'" else " " for letter in text)
    return [word for part in plain.lower().split() if (word := part.strip("-_'"))]


def count_words(text: str, counts: "dict[str, int]") -> None:
    """Add the words of a text that tell something to how often each was said."""
    first, *rest = text.split("[REDACTED:")
    plain = "".join([first, *(part.partition("]")[2] for part in rest)])
    for word in words_of(plain):
        telling = _SHORTEST <= len(word) <= _LONGEST and not word.isdigit()
        if telling and word not in _COMMON:
            counts[word] = counts.get(word, 0) + 1


def keywords(counts: "dict[str, int]") -> "list[str]":
    """Return the words said most often; of equals, those that were said first."""
    return sorted(counts, key=lambda word: -counts[word])[:MOST_KEYWORDS]
