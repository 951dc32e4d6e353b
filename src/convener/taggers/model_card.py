"""Model card: the README of a saved tagger."""

from __future__ import annotations

from collections.abc import Sequence

USAGE = {
    "transformers": """\
Tag words with the label of their first subword:

```python
from transformers import AutoModelForTokenClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForTokenClassification.from_pretrained(FOLDER).eval()
words = ["Ada", "Lovelace", "wrote"]
inputs = tokenizer([words], is_split_into_words=True, return_tensors="pt")
labels = model(**inputs).logits[0].argmax(-1).tolist()
tags = ["O"] * len(words)
for position, word in reversed(list(enumerate(inputs.word_ids()))):
    if word is not None:
        tags[word] = model.config.id2label[labels[position]]
```

Words without a subword are O. An I- tag that continues no span starts one. Sentences longer than the maximum input
of the model must be split; convener uses overlapping windows.
""",
    "spacy": """\
```python
import spacy

doc = spacy.load(FOLDER)("Ada Lovelace wrote.")
print([(entity.text, entity.label_) for entity in doc.ents])
```

The pipeline uses its own tokenizer, which may differ from the tokens it was trained on.
""",
}


def model_card(tags: Sequence[str], library: str) -> str:
    """README of a saved tagger: its tags, and how to use it with the given library alone."""
    tag_list = "\n".join(f"- `{tag}`" for tag in tags)
    return f"""---
library_name: {library}
pipeline_tag: token-classification
tags:
- convener
---
# Tagger trained with convener
This tagger was trained on labels that a label model inferred from several noisy sources, or on gold labels.
`model.json` contains its settings and which gold labels were used (`uses_gold`).

Tags:

{tag_list}

## Use
{USAGE[library]}"""
