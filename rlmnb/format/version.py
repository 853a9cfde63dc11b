"""Which versions this is: of the package, of the schema, of the index."""

PACKAGE = "0.1.0"
SCHEMA = 1
INDEX = "1.0"
