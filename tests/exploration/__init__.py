"""An explorer: the shipped protocol, in every order of events that the bounds of a case allow.

`python -m tests.exploration` runs it. Start reading at explore.py; cases.py states the bounds.
"""
