"""The deployment: settings, four stacks, and the constructs they are composed of."""
