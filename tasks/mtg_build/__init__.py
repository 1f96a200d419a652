"""The construction of MTG from English originals, see __main__.py."""
