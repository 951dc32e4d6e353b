"""Fit and evaluate every label model on the built-in corpus, majority vote first.

Models that use features get the `hashing` encoder, which needs no download; `encoder="auto"` selects the best
installed encoder instead, which `bert-ner` fine-tunes.
"""

import convener as cv

corpus = cv.demo.load_corpus()
names = sorted(cv.list_models(), key=lambda name: name != "majority-vote")

rows = []
for name in names:
    model_class = cv.get_model(name)
    settings = {"encoder": "hashing"} if model_class.needs_features else {}
    model = model_class(**settings).fit(corpus.train)
    score = cv.evaluate(model.predict(corpus.test), corpus.test)
    rows.append((name, score.precision, score.recall, score.f1, score.uses_gold))

print(
    cv.Table(
        title="Scores on the test split of the built-in corpus",
        columns=("model", "precision", "recall", "F1", "uses gold"),
        rows=rows,
        formats=dict.fromkeys(("precision", "recall", "F1"), ".1%"),
    )
)
