"""autofit: finds, by really running it, the best training configuration that fits the device, then launches it.

import autofit_launcher as autofit     # from Python: ``autofit.run([...])``, see ``api``; imported when it is first asked for
"""

__version__ = "0.2.0"
__all__ = ["BadInput", "Error", "NoFit", "Result", "fit", "resume", "run", "train"]

TYPE_CHECKING = False  # of typing's name, which type checkers know by itself: every module of autofit's imports this one
if TYPE_CHECKING:
    from autofit_launcher.api import BadInput, Error, NoFit, Result, fit, resume, run, train


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autofit_launcher import api

    return getattr(api, name)
