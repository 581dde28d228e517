"""From passages to an answer, with a language model or without one."""
