"""Large language models as sources."""

from convener.lf.llm.client import ClientConfig
from convener.lf.llm.prompt import Prompt
from convener.lf.llm.source import LLMSource, Usage, llm

__all__ = ["ClientConfig", "LLMSource", "Prompt", "Usage", "llm"]
