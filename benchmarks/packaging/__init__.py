"""What the usual ways of packaging do to .pyc files, and what that costs each cold start."""
