"""Small training and test sets from dev sets in many languages; see __main__.py."""

TASKS = ('xnli', 'pawsx')
