"""What a trainer has to offer: the interface of adapters, and what they share. ``launcher.adapter`` is what a trainer's package imports."""
