"""State of the earlier "RLM for Claude Code" tools becomes sessions, and can become it again."""
