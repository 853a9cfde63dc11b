"""`python -m rlmnb`."""

from rlmnb.cli.main import main

raise SystemExit(main())
