"""Runs: settings are resolved, written and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv
from convener.experiment import run
from convener.experiment.run import Run

VOTE = "majority-vote"


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('model = "majority-vote"\n[model_settings]\nscheme = "span"\nseed = 3\n')
    config = run.RunConfig.resolve(file, model_settings={"seed": "4"})
    assert config.model_settings == {"seed": 4, "scheme": "span", "ties": None}


def test_the_resolved_config_reads_back(tmp_path: Path) -> None:
    config = run.RunConfig.resolve(
        None, model=VOTE, model_settings={"scheme": "bio"}, read_options={"sources": ("a, b", "c")}
    )
    (tmp_path / "config.toml").write_text(run.config_toml(config))
    again = run.RunConfig.resolve(tmp_path / "config.toml")
    assert run.config_toml(again) == run.config_toml(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "not valid TOML"),
        ('modle = "hmm"', "no setting in .*; did you mean 'model'"),
        ("model_settings = 3", "model_settings must be a table"),
        ('model = "majorty-vote"', "did you mean 'majority-vote'"),
        ("[model_settings]\nsead = 1", "did you mean 'seed'"),
        ("[model_settings]\nseed = 1.5", "seed must be a whole number"),
        (
            'model = "majority-vote"\n[model_settings]\nscheme = "iob"',
            "scheme must be one of io, bio, span",
        ),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(cv.ConvenerError, match=message):
        run.RunConfig.resolve(file)


def test_train_split_takes_the_first_share(toy: cv.Dataset) -> None:
    corpus = cv.Corpus(splits={"valid": toy})
    train, valid = run.select_training_data(corpus, "valid:0.8", "here")
    assert train == toy[:32]
    assert valid == toy[32:]


def test_a_missing_train_names_the_option(toy: cv.Dataset) -> None:
    with pytest.raises(cv.UnknownNameError, match=r"--train-split valid:0\.8"):
        run.select_training_data(cv.Corpus(splits={"test": toy}), None, "here")


def test_a_bad_share_is_refused(toy: cv.Dataset) -> None:
    with pytest.raises(cv.ConfigError, match="SPLIT:SHARE"):
        run.select_training_data(cv.Corpus(splits={"valid": toy}), "valid:most", "here")


def test_an_existing_run_is_not_replaced_silently(toy: cv.Dataset, tmp_path: Path) -> None:
    config = run.RunConfig.resolve(None, model=VOTE)
    folder = tmp_path / "run"
    run.fit_run(config.build(), toy, None, config, folder)
    with pytest.raises(cv.DataError, match="--resume or --overwrite"):
        run.is_complete(folder, config, resume=False, overwrite=False)
    assert run.is_complete(folder, config, resume=True, overwrite=False)
    assert not run.is_complete(folder, config, resume=False, overwrite=True)
    other = run.RunConfig.resolve(None, model=VOTE, model_settings={"scheme": "span"})
    with pytest.raises(cv.DataError, match="other settings"):
        run.is_complete(folder, other, resume=True, overwrite=False)


def test_a_folder_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(cv.DataError, match="choose another folder"):
        run.is_complete(tmp_path, run.RunConfig(), resume=False, overwrite=True)


def test_a_run_is_a_loadable_model(toy: cv.Dataset, tmp_path: Path) -> None:
    config = run.RunConfig.resolve(None, model=VOTE)
    info = run.fit_run(config.build(), toy, None, config, tmp_path / "run")
    assert info["uses_gold"] == "none"
    assert cv.load_model(tmp_path / "run").predict(toy).tags() == cv.MajorityVote().fit(toy).predict(toy).tags()


def test_an_opened_run_has_its_config_and_info(toy: cv.Dataset, tmp_path: Path) -> None:
    read_options = {"sources": toy.sources, "on_overlap": "first"}
    config = run.RunConfig.resolve(None, model=VOTE, train_split="valid:0.8", read_options=read_options)
    info = run.fit_run(config.build(), toy, None, config, tmp_path / "run", extra_info={"data_path": str(tmp_path)})
    opened = Run.open(tmp_path / "run")
    assert opened.info == info
    assert opened.train_split == "valid:0.8"
    assert opened.read_options == {"on_overlap": "first", "sources": toy.sources, "default_types": toy.tags.types}
    assert opened.data_path == tmp_path
    assert opened.model is opened.label_model
    assert opened.label_model.fitted.sources == toy.sources


def test_a_saved_model_is_a_run_without_config_and_info(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "model")
    opened = Run.open(tmp_path / "model")
    assert (opened.config, opened.info, opened.train_split) == ({}, {}, None)
    assert opened.read_options == {"sources": toy.sources, "default_types": toy.tags.types}
    with pytest.raises(cv.ConfigError, match="does not record its data path; pass --data"):
        _ = opened.data_path


def test_a_folder_without_a_model_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(cv.DataError, match=r"not a saved model \(model\.json expected\)"):
        Run.open(tmp_path)


@pytest.mark.parametrize(("text", "message"), [("{", "not valid JSON"), ("[1]", "expected an object, found list")])
def test_damaged_run_information_is_reported(toy: cv.Dataset, tmp_path: Path, text: str, message: str) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "model")
    (tmp_path / "model" / "run.json").write_text(text)
    with pytest.raises(cv.DataError, match=message):
        _ = Run.open(tmp_path / "model").info
