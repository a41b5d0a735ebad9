"""The slice "real pictures": questions about photographs that packages carry, labelled by eye.

Only questions, labels and the list of pictures are ours; the pictures come from their packages.
"""
