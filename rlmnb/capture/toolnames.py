"""The agent's tools by what they do."""

# These only look; to run them again costs nothing and changes nothing.
READING = frozenset({"Read", "NotebookRead", "Glob", "Grep", "LS"})
# Of these, the ones that look through directories.
LISTING = frozenset({"Glob", "Grep", "LS"})
# These are offered to cells too, and what they do cannot be taken back.
CHANGING = frozenset({"Bash", "Write", "Edit", "MultiEdit", "NotebookEdit"})
# These change things as well, and only their agent has them.
ELSEWHERE = frozenset({"PowerShell", "WebFetch", "ApplyPatch"})
# What `tools` offers besides the tools themselves.
HELPERS = frozenset({"call", "kept"})
# With these an agent says what it has decided to do.
DECIDING = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "ExitPlanMode"})
