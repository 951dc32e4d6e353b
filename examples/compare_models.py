"""Every label model on the embedded corpus, majority vote first.

Those that read the text get features that need no model; `encoder="auto"` would take the best
encoder that is installed, and train it for `bert-ner`.
"""

import convener as cv

corpus = cv.demo.load_corpus()
names = sorted(cv.list_models(), key=lambda name: name != "majority-vote")

rows = []
for name in names:
    kind = cv.get_model(name)
    settings = {"encoder": "hashing"} if kind.needs_features else {}
    model = kind(**settings).fit(corpus.train)
    score = cv.evaluate(model.predict(corpus.test), corpus.test)
    rows.append((name, score.precision, score.recall, score.f1, model.supervised))

print(
    cv.Table(
        title="Test sentences of the embedded corpus",
        columns=("model", "precision", "recall", "F1", "sees gold"),
        rows=rows,
        formats=dict.fromkeys(("precision", "recall", "F1"), ".1%"),
    )
)
