"""Small training and test sets of dev sets in many languages; see __main__.py."""

TASKS = ('xnli', 'pawsx')
