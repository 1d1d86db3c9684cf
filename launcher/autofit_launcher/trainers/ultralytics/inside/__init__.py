"""Code that runs in processes that import Ultralytics: trials, imports before the budget, looks at what is there, downloads."""
