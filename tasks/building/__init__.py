"""Shared parts of the builds of MRS and MTG."""
