"""train-tagger, and predict and evaluate with a tagger."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.cli import main
from tests.models.kills import killed_at

from .conftest import Command

QUICK = ("--encoder", "hashing", "--max-epochs", 3)


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory, news: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mv"
    with pytest.raises(SystemExit):
        main(["fit", str(news), "--model", "majority-vote", "-o", str(folder)])
    return folder


@pytest.fixture
def trained(convener: Command, news: Path, voted: Path, tmp_path: Path) -> Path:
    done = convener("train-tagger", voted, news, *QUICK, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    return tmp_path / "t"


def test_scores_are_shown_with_label_model_and_majority_vote(
    convener: Command, news: Path, voted: Path, tmp_path: Path
) -> None:
    done = convener("train-tagger", voted, news, *QUICK, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    for row in ("frozen tagger", "majority-vote", "majority vote (IO)"):
        assert row in done.out
    assert "on valid" in done.out
    assert "trained on" in done.err


def test_scores_equal_those_of_evaluate(convener: Command, news: Path, voted: Path, tmp_path: Path) -> None:
    arguments = (*QUICK, "--split", "test", "--hard-labels", "--seed", 3, "--set", "use_crf=no", "--json")
    done = convener("train-tagger", voted, news, *arguments, "-o", tmp_path / "t").json
    assert done["targets"] == "hard"
    assert done["uses_gold"] == "none"
    scores = done["scores"]["by"]
    own = convener("evaluate", tmp_path / "t", news, "--split", "test", "--json").json
    assert own["f1"] == pytest.approx(scores["frozen tagger"]["f1"])
    assert own["majority_vote"]["f1"] == pytest.approx(scores["majority vote (IO)"]["f1"])
    info = json.loads((tmp_path / "t" / "model.json").read_text())
    assert info["settings"]["seed"] == 3
    assert info["settings"]["use_crf"] is False


def test_predict_writes_the_predictions_of_the_tagger(
    convener: Command, news: Path, trained: Path, tmp_path: Path
) -> None:
    file = tmp_path / "l.jsonl"
    assert convener("predict", trained, news, "--split", "test", "-o", file).code == 0
    expected = cv.load_tagger(trained).predict(cv.read(news, "test"))
    np.testing.assert_array_equal(cv.read_predictions(file).labels, expected.labels)


def test_predict_needs_no_sources(convener: Command, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"tokens": ["Ada", "left", "Oslo"]}\n')
    done = convener("predict", trained, tmp_path / "plain.jsonl", "-o", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    assert len(cv.read_predictions(tmp_path / "out.jsonl")) == 1


def test_training_on_a_file_of_predictions(convener: Command, news: Path, voted: Path, tmp_path: Path) -> None:
    convener("predict", voted, news, "--split", "train", "-o", tmp_path / "l.npz")
    arguments = (*QUICK, "-o", tmp_path / "t", "--json")
    done = convener("train-tagger", tmp_path / "l.npz", news, *arguments)
    assert done.code == 0, done.err
    assert done.json["sentences"] == len(cv.read(news, "train"))
    assert set(done.json["scores"]["by"]) == {"frozen tagger", "majority vote (IO)"}


def test_labels_without_probabilities_are_hard_unless_soft_is_required(
    convener: Command, news: Path, voted: Path, tmp_path: Path
) -> None:
    convener("predict", voted, news, "--split", "train", "-o", tmp_path / "l.conll")
    arguments = ("train-tagger", tmp_path / "l.conll", news, *QUICK, "-o", tmp_path / "t")
    refused = convener(*arguments, "--soft-labels")
    assert refused.code == 2
    assert "soft labels need probabilities" in refused.err
    assert convener(*arguments).code == 0


def test_training_on_gold_warns(convener: Command, news: Path, tmp_path: Path) -> None:
    cv.write(cv.read(news, "train"), tmp_path / "gold.jsonl")
    done = convener("train-tagger", tmp_path / "gold.jsonl", news, *QUICK, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    assert "contains no predictions; training on its gold labels" in done.err
    assert "frozen tagger uses gold labels: an upper bound" in done.out
    evaluation = convener("evaluate", tmp_path / "t", news, "--split", "test", "--json")
    assert evaluation.json["uses_gold"] == "train"


def test_labels_of_a_model_that_uses_gold_are_marked(convener: Command, news: Path, tmp_path: Path) -> None:
    convener("fit", news, "--model", "best-consensus", "-o", tmp_path / "bc")
    arguments = (*QUICK, "-o", tmp_path / "t", "--json")
    assert convener("train-tagger", tmp_path / "bc", news, *arguments).json["uses_gold"] == "train"


def test_without_gold_there_are_no_scores(convener: Command, voted: Path, tmp_path: Path) -> None:
    cv.write(cv.demo.load_corpus().train.without_gold(), tmp_path / "plain.jsonl")
    arguments = (*QUICK, "-o", tmp_path / "t")
    done = convener("train-tagger", voted, tmp_path / "plain.jsonl", *arguments, "--json")
    assert done.code == 0, done.err
    assert done.json["scores"] is None
    shown = convener("train-tagger", voted, tmp_path / "plain.jsonl", *arguments, "--overwrite")
    assert shown.out == ""


def test_an_existing_tagger_is_kept(convener: Command, news: Path, voted: Path, trained: Path) -> None:
    arguments = ("train-tagger", voted, news, *QUICK, "-o", trained)
    refused = convener(*arguments)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    kept = convener(*arguments, "--resume", "--json")
    assert kept.json["tagger"] == "frozen"
    assert "already complete" in kept.err
    other = convener(*arguments, "--resume", "--seed", 9)
    assert other.code == 2
    assert "other settings" in other.err
    assert convener(*arguments, "--overwrite").code == 0


def test_an_interrupted_training_resumes(
    convener: Command, news: Path, voted: Path, trained: Path, tmp_path: Path
) -> None:
    arguments = ["train-tagger", voted, news, *QUICK, "-o", tmp_path / "u"]
    with killed_at(200):
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        assert stop.value.code == 130
        raise KeyboardInterrupt
    assert (tmp_path / ".u.checkpoint").is_dir()
    assert not (tmp_path / "u").exists()
    done = convener(*arguments, "--resume")
    assert done.code == 0, done.err
    assert not (tmp_path / ".u.checkpoint").exists()
    numbers = [(tmp_path / name / "params.safetensors").read_bytes() for name in ("t", "u")]
    assert numbers[0] == numbers[1]


def test_a_spacy_pipeline(convener: Command, news: Path, voted: Path, tmp_path: Path) -> None:
    arguments = ("train-tagger", voted, news, "--tagger", "spacy", "--max-epochs", 1)
    done = convener(*arguments, "-o", tmp_path / "t", "--json")
    assert done.code == 0, done.err
    assert done.json["targets"] == "hard"
    assert (tmp_path / "t" / "config.cfg").is_file()
    assert convener("evaluate", tmp_path / "t", news, "--split", "test").code == 0
    refused = convener(*arguments, "--soft-labels", "-o", tmp_path / "u")
    assert refused.code == 2
    assert "omit --soft-labels" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tagger", "frozne"), "did you mean 'frozen'"),
        (("--set", "epochs=3"), "did you mean 'max_epochs'"),
        (("--tagger", "spacy", "--encoder", "minilm"), "no setting of spacy tagger 'encoder'"),
        (("--tagger", "finetuned", "--encoder", "hashing"), "has no weights to train"),
    ],
)
def test_bad_options_are_one_line(
    convener: Command,
    news: Path,
    voted: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    refused = convener("train-tagger", voted, news, *arguments, "-o", tmp_path / "t")
    assert refused.code == 2
    assert message in refused.err
    assert not (tmp_path / "t").exists()


def test_a_tagger_is_refused_as_label_model(convener: Command, news: Path, trained: Path, tmp_path: Path) -> None:
    refused = convener("train-tagger", trained, news, *QUICK, "-o", tmp_path / "u")
    assert refused.code == 2
    assert "expected a label model or a file of predictions" in refused.err


def test_data_without_train_is_split_as_in_the_run(convener: Command, news: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    cv.write(cv.Corpus(splits={"valid": cv.read(news, "valid")}), folder, format="jsonl")
    vote = ("--model", "majority-vote", "--train-split", "valid:0.8", "-o", tmp_path / "run")
    assert convener("fit", folder, *vote).code == 0
    done = convener("train-tagger", tmp_path / "run", folder, *QUICK, "-o", tmp_path / "t", "--json")
    assert done.code == 0, done.err
    assert done.json["sentences"] == round(0.8 * len(cv.read(news, "valid")))
