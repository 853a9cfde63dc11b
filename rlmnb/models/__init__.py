"""Model calls: asked once, kept in the notebook, counted, and answered from there."""
