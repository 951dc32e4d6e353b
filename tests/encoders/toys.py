"""Helpers for tests of encoders: tiny models of three architectures, a slow encoder, packed sentences."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from convener.data.features import EncoderSpec
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.encoders.base import EncodedBatch, Encoder, sentence_means
from convener.storage import compute_digest

TEXT = (
    "the cat sat on the mat",
    "Oslo is in Norway , they say",
    "naïve café owners ask 5 € for it",
    "unbelievable things happen to cats and owners of cats",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
)
SENTENCES: list[list[str]] = [line.split() for line in TEXT]


def packed(sentences: list[list[str]]) -> tuple[StringArray, Any]:
    """Sentences as tokens and offsets."""
    return StringArray.from_list(w for words in sentences for w in words), lengths_to_offsets(map(len, sentences))


def dataset(sentences: list[list[str]]) -> cv.Dataset:
    return cv.Dataset.from_spans(["PER"], sentences, {"one": [[] for _ in sentences]})


def corpus() -> cv.Dataset:
    """A hundred sentences, some of them empty, some longer than a shard of twenty tokens."""
    rng = random.Random(5)
    lengths = [0, *(rng.choice([0, 1, 4, 9, 30]) for _ in range(98)), 0]
    return dataset([[f"w{'x' * rng.randrange(9)}" for _ in range(n)] for n in lengths])


class Lengths(Encoder):
    """Simple features: length of the word, its position, a constant."""

    name = "lengths"
    dim = 3

    def __init__(self, scale: float = 1.0, pause: float = 0.0) -> None:
        self.scale, self.pause, self.calls = scale, pause, 0

    @property
    def spec(self) -> EncoderSpec:
        return EncoderSpec(self.name, compute_digest(self.name, {"scale": self.scale}))

    def encode(self, tokens: StringArray, offsets: Any) -> EncodedBatch:
        self.calls += 1
        time.sleep(self.pause)
        place = np.concatenate([np.arange(n) for n in np.diff(offsets)] or [np.zeros(0)])
        rows = np.stack([tokens.character_lengths(), place, np.full(len(tokens), 7)], axis=1)
        words = np.asarray(rows * self.scale, np.float32)
        return EncodedBatch(words, sentence_means(words, offsets))


# Models


def build(kind: str, folder: Path) -> Path:
    """A tiny model with random weights and a tokenizer trained on a few lines."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(7)
    tokenizer, model = {"roberta": _roberta, "distilbert": _distilbert, "t5": _t5}[kind]()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def _roberta() -> tuple[Any, Any]:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    named = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[*named.values(), "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(TEXT, trainer)
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    named |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    tokenizer = transformers.RobertaTokenizerFast(tokenizer_object=core, model_max_length=128, **named)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=130,
        pad_token_id=1,
    )
    return tokenizer, transformers.RobertaModel(config)


def wordpieces() -> Any:
    """A WordPiece tokenizer."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    named = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=list(named.values()), show_progress=False)
    core.train_from_iterator(TEXT, trainer)
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=128,
        **{f"{name}_token": word for name, word in named.items()},
    )


def _distilbert() -> tuple[Any, Any]:
    import transformers

    tokenizer = wordpieces()
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=24,
        n_layers=5,
        n_heads=4,
        hidden_dim=40,
        max_position_embeddings=128,
    )
    return tokenizer, transformers.DistilBertModel(config)


def _t5() -> tuple[Any, Any]:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    core = Tokenizer(models.Unigram())
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=80,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    core.train_from_iterator(TEXT, trainer)
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=128,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    config = transformers.T5Config(vocab_size=len(tokenizer), d_model=28, d_kv=7, num_layers=3, num_heads=4, d_ff=40)
    return tokenizer, transformers.T5EncoderModel(config)
