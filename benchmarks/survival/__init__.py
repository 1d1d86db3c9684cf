"""Full runs launched after a fit, with nobody's favourite data -> how many died of memory. `make survival`; see docs/survival.md."""
