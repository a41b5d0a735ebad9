"""The fault suite: whatever breaks, no goal goes out that should not (DESIGN section 5).

``make faults`` runs it whole, ``make test`` a sample; ``python -m faults.page`` writes the table of
docs/reliability.md from its results.
"""
