"""One folder per trainer: an adapter (its interface: ``autofit_launcher.adapter``), and what it knows. ``suite`` tests any adapter."""
