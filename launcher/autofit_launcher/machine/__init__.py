"""This machine: starts and ends processes, reads memory and cards, takes locks, sets the variables of allocators."""
