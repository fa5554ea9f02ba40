"""The functions of the sample. Each module is one function."""
