"""Semantic Flip: unanswerable training pairs out of answerable ones.

Q-Flip keeps the memory and rewrites the question; V-Flip keeps the question and erases its
referent from every frame.
"""
