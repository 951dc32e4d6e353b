"""What a saved tagger says of itself to people."""

from __future__ import annotations

from collections.abc import Sequence

USAGE = {
    "transformers": """\
Read words, and take the tag of each word's first piece:

```python
from transformers import AutoModelForTokenClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForTokenClassification.from_pretrained(FOLDER).eval()
words = ["Ada", "Lovelace", "wrote"]
read = tokenizer([words], is_split_into_words=True, return_tensors="pt")
best = model(**read).logits[0].argmax(-1).tolist()
tags = ["O"] * len(words)
for place, word in reversed(list(enumerate(read.word_ids()))):
    if word is not None:
        tags[word] = model.config.id2label[best[place]]
```

Words without a piece are O; an I- where nothing goes on begins a span. Text that is longer than the
model reads must be cut: convener reads it in windows that overlap.
""",
    "spacy": """\
```python
import spacy

doc = spacy.load(FOLDER)("Ada Lovelace wrote.")
print([(entity.text, entity.label_) for entity in doc.ents])
```

The pipeline cuts text into words by itself; the words it was trained on were given.
""",
}


def model_card(tags: Sequence[str], library: str) -> str:
    """A README: what the tagger tells apart, and how it is used with that library alone."""
    tag_list = "\n".join(f"- `{tag}`" for tag in tags)
    return f"""---
library_name: {library}
pipeline_tag: token-classification
tags:
- convener
---
# A tagger trained with convener
It was trained on labels that a label model made of many noisy sources, or on gold: `model.json`
says which (`saw_gold`), and with which settings.

Labels:

{tag_list}

## Use
{USAGE[library]}"""
