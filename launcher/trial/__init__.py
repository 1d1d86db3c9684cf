"""One rung, really run in a child process, and judged; and the proof, by real twins of it, that it is the asked training."""
