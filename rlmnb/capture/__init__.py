"""In: what an agent did, as cells."""
