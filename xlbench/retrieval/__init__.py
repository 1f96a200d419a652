"""Responses to messages, found by the vectors of a dual encoder.

  text_encoder  texts to vectors
  exact_search  the nearest vectors of a response set
  response_set  the responses that can be suggested, and the best set of suggestions
"""

__all__ = ['exact_search', 'response_set', 'text_encoder']
