"""Draw the DAG of a session: as text, Mermaid, Graphviz dot and SVG. Pure: nothing is read."""
