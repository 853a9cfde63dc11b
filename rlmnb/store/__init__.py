"""Keep: the notebook, its journal, objects, the index file, and the root they live under."""
