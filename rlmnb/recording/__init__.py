"""In: what an agent's hooks tell, taken down in its session."""
