"""Offpath takes the work that feeds an accelerator off its critical path."""
