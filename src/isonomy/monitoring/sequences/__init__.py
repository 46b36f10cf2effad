"""Mathematics of monitoring: strata, scores with their boundary, the change alarm, and the exact alternative."""
