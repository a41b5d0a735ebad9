"""Rendered rooms with exact labels: the project's own benchmark and sample dataset."""
