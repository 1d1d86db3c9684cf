"""autofit: finds, by really running it, the best training configuration that fits the device, then launches it."""

__version__ = "0.2.0"
