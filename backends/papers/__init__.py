"""The arms of published systems: Clue-RAG and ZoomRAG without a language model."""
