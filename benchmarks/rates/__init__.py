"""Rate limits beside other ways to keep a rate, in virtual time."""
