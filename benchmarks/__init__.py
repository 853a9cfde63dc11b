"""Speed, measured as ratios within one run: against a peer, or against the physical limit."""
