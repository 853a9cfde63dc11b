"""The command line: parse, call, print. No decisions are made here."""
