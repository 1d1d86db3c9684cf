"""What autofit itself costs: its launcher beside trainings, and watching a run."""
