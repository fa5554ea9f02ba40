"""lambda_lock.testing's tables, which the simulator runs on, compared with both real engines request by request.

`python -m tests.expressions --help` runs it. Start reading at compare.py. known.py lists where the engines differ. The
requests are those of the protocol (shipped.py), any that the grammar allows (grammar.py), and such as fit their rows
(themes.py).
"""
