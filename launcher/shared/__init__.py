"""What both sides of the process wall load: what a child is told, what it reports, how it ended, and how memory is read.

A script's own interpreter loads it, too: it imports nothing but the standard library and itself.
"""
