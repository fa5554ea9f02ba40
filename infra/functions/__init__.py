"""What the sample does. Each module is one function."""
