"""One folder per trainer: an adapter (its interface: ``launcher.adapter``), and what it knows. ``suite`` tests any adapter."""
