"""Decide: edges, index, freshness. Pure functions: no disk, kernel, clock or chance."""
