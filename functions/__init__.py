"""One package of thin handlers; ``wiring`` puts together what they call."""
