"""What autofit can be asked to do: ``table`` lists it, the others do it, one module by what a verb takes."""
