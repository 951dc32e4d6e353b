"""Settings of all label models and taggers: names, explanations, number, defaults, signatures."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest
import sklearn.base

import convener as cv
from convener.cli.field_docs import field_docs
from convener.config import Settings, config_from_dict, config_to_dict
from convener.errors import ConfigError, NotFittedError
from convener.models.base import ModelConfig
from convener.taggers.base import TaggerConfig

CLASSES = {name: cv.get_model(name) for name in cv.list_models()} | {
    f"{name} tagger": cv.get_tagger(name) for name in cv.list_taggers()
}
MAX_SETTINGS = 17
"""A group counts as one setting."""
RANGE = re.compile(r"at least \d|above \d|in [\[(]\S+, \S+[\])]")
NEUTRAL = {
    "boundary_penalty": "0",
    "char_dim": "0",
    "context_window": "0",
    "dropout": "0",
    "g_n": "1",
    "h_n": "1",
    "h_s": "1",
    "hidden_size": "0",
    "new_span_penalty": "0",
    "num_folds": "1",
    "prior_strength": "0",
    "probability_scale": "1",
    "score_window": "1",
    "tau": "0",
    "tol": "0",
    "type_penalty": "0",
    "unmarked_weight": "1",
    "weight_decay": "0",
}
"""Settings with a value that switches them off, or that is the plain model."""
RETIRED = set(
    re.findall(
        r"\w+",
        "accuracy balance base batch both clash clip context crf decay diagonal doubt edge emission_lr epochs "
        "expand expansion_lr exponent false_votes finetune folds head_lr hear hidden initial_lr lang "
        "later_turn legal level links lr naive partial pooled precision prefix pretraining prior "
        "published_wxor rest restarts root rounds same silence smooth smoothing spelling start steepness "
        "steps strength thaw threads ties tolerance trust turn uniform_start warmup window wxor",
    )
)
"""Names of settings in version 0.1."""


def groups(config: type[Any]) -> set[type[Settings]]:
    """The groups of settings that a settings class combines."""
    bases = [base for base in config.__mro__[1:] if issubclass(base, Settings) and base is not Settings]
    return {base for base in bases if not issubclass(base, (ModelConfig, TaggerConfig))}


def number_of_settings(config: type[Any]) -> int:
    """Number of settings, with each group counted once."""
    grouped = {field.name for group in groups(config) for field in fields(group)}
    return len({field.name for field in fields(config)} - grouped) + len(groups(config))


@pytest.mark.parametrize("name", CLASSES)
def test_every_setting_is_explained_with_its_range_and_neutral_value(name: str) -> None:
    config = CLASSES[name].Config
    docs, defaults = field_docs(config), config()
    for item in fields(config):
        text = docs[item.name]
        assert len(text) > 20, item.name
        numeric = re.search(r"\b(int|float)\b", str(item.type)) and item.name != "class_weights"
        assert not numeric or RANGE.search(text), f"{item.name}: {text}"
        if item.name in NEUTRAL:
            assert re.search(rf"(?<![\d.]){NEUTRAL[item.name]}(?![\d.]\d)", text), f"{item.name}: {text}"
        if getattr(defaults, item.name) is None:
            assert re.search("default|None", text), f"{item.name}: {text}"


@pytest.mark.parametrize("name", CLASSES)
def test_no_setting_has_a_retired_name(name: str) -> None:
    assert not {field.name for field in fields(CLASSES[name].Config)} & RETIRED


@pytest.mark.parametrize("name", CLASSES)
def test_there_are_few_settings(name: str) -> None:
    assert number_of_settings(CLASSES[name].Config) <= MAX_SETTINGS


def test_groups_count_once() -> None:
    names = {group.__name__ for group in groups(cv.SparseCHMM.Config)}
    assert names == {"ContextConfig", "SparsePrior", "VoteEvidence"}
    assert number_of_settings(cv.SparseCHMM.Config) == 17
    assert number_of_settings(cv.HMM.Config) == 7


@pytest.mark.parametrize("name", CLASSES)
def test_every_default_passes_its_own_check(name: str) -> None:
    config = CLASSES[name].Config()
    assert config_from_dict(type(config), config_to_dict(config), kind="setting") == config


@pytest.mark.parametrize("name", CLASSES)
def test_the_signature_shows_the_settings(name: str) -> None:
    assert set(inspect.signature(CLASSES[name]).parameters) == {field.name for field in fields(CLASSES[name].Config)}


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_setting_is_an_error(name: str) -> None:
    with pytest.raises(cv.ConfigError, match=f"no setting of {name} 'unknown'"):
        CLASSES[name](unknown=1)


@pytest.mark.parametrize("name", CLASSES)
def test_scikit_learn_clones_models_and_taggers(name: str) -> None:
    one = CLASSES[name](seed=7)
    params = one.get_params()
    assert (
        params
        == one.get_params(deep=False)
        == {item.name: getattr(one.config, item.name) for item in fields(one.config)}
    )
    for other in (sklearn.base.clone(one), one.clone()):
        assert type(other) is type(one)
        assert other is not one
        assert other.config == one.config
    assert CLASSES[name](**params).config == one.config
    assert one.set_params(seed=3) is one
    assert one.get_params() == params | {"seed": 3}
    with pytest.raises(ConfigError, match=r"no setting of .* 'sed'; did you mean 'seed'"):
        one.set_params(sed=3)
    assert one.config.seed == 3


def test_a_clone_is_not_fitted_and_a_changed_setting_discards_the_fit() -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "left"]], {"names": [[(0, 1, "PER")]]})
    model = cv.MajorityVote(scheme="span").fit(data)
    for other in (sklearn.base.clone(model), model.clone()):
        assert other.config == model.config
        with pytest.raises(NotFittedError):
            other.predict(data)
    assert model.set_params(scheme="span").predict(data).tags() == [["B-PER", "O"]]
    with pytest.raises(NotFittedError):
        model.set_params(scheme="bio").predict(data)
    assert model.fit(data).predict(data).settings["scheme"] == "bio"
