"""The steps of a launch, each in a module: prepare, reuse a kept fit, search, prove, train over several attempts, resume."""
