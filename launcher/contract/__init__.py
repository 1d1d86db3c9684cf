"""What crosses the wall between the launcher and a trainer's process: what a child is told, what it reports, how it ended.

Both sides import this room, a script's own interpreter included: it imports nothing but the standard library and itself.
"""
