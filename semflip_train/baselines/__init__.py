"""Controls and baselines that stand beside the gate in every table.

One contract: fitted on training rows, then scores rows; a higher score is more unanswerable.
"""
