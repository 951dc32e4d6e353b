"""Aggregate crowd annotations from a CSV table and estimate the reliability of the workers.

Three workers mark places; the third is careless. A worker without a row for a document did not see it.
"""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import convener as cv

TEXTS = [f"They moved from {a} to {b} ." for a, b in [("Oslo", "Lima"), ("Porto", "Riga")] * 10]

with TemporaryDirectory() as folder:
    table = Path(folder) / "crowd.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["doc_id", "source", "start", "end", "label", "text"])
        for number, text in enumerate(TEXTS):
            first, second = text.split()[3], text.split()[5]
            rows.writerow([number, "", "", "", "", text])
            for worker in ("ann", "bob"):
                for word in (first, second):
                    at = text.index(word)
                    rows.writerow([number, worker, at, at + len(word), "LOC", ""])
            if number % 4 == 0:  # marks a verb and misses the places
                rows.writerow([number, "eve", 5, 10, "LOC", ""])
            elif number % 4 == 1:  # saw the document and marked nothing
                rows.writerow([number, "eve", "", "", "", ""])
    data = cv.read(table)

model = cv.Segment().fit(data)
predictions = model.predict(data)
print(predictions.tags()[0])
print(model.reliability())
print(cv.suggest_answers(data, predictions, number=3))
