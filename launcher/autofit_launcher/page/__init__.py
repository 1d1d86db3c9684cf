"""Writes a run, or several side by side, as one page of HTML that needs no network. Reads run folders; starts nothing."""
