"""How layers and function code are built, without Docker and without anything but pip."""
