"""One rung, really run in a child process, and judged."""
