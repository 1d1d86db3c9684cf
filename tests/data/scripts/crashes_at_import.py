"""Fault: imports what isn't there."""

from usual import Usual

Usual()
import no_such_package_anywhere  # noqa: F401
