"""CoNLL: one line per token with its tags in columns, a blank line between sentences.

Predictions, and gold labels without votes, are written plain: token and tag, separated by a space, as spaCy, seqeval
and conlleval read them. Complete files, with votes and scores, start with a comment that names the columns. In other
files the first column is the token and the last one the gold tag, unless the option `columns` names them. Columns are
separated by tabs if the first line with a token contains one, else by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location
from convener.data.predictions import Predictions
from convener.data.ragged import lengths_to_offsets, locate
from convener.data.schemes import ChunkPosition, from_bio, is_sentence_start, scheme_codes
from convener.data.tags import ABSTAIN, TagSet
from convener.encodings import open_text
from convener.errors import DataError, FormatError
from convener.io.conll_lines import (
    ABSTAIN_TAG,
    DOC_ID_PREFIX,
    DOCSTART,
    EMPTY_SENTENCE,
    HEADER_PREFIX,
    SOURCE_PREFIX,
    Layout,
    LineParser,
    detect_layout,
)
from convener.io.formats import (
    CAPABILITIES,
    FileContent,
    Format,
    LabeledData,
    ReadOptions,
    WriteOptions,
    get_dataset,
    get_labels,
)
from convener.io.json_records import shortest_floats
from convener.io.json_stream import dump_json
from convener.io.metadata import Metadata, build_tag_set, select_sources
from convener.io.tag_columns import TagRepair, TagRowIndex

SENTENCES_PER_CHUNK = 5000
"""Number of sentences written at a time."""
UNSUPPORTED_CHARACTERS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
"""Characters that a token or a type cannot contain: they end a field or a line, or are not valid Unicode."""

WHITESPACE = re.compile(r"[\s\ud800-\udfff]")
"""Characters that a token or a type cannot contain in columns separated by spaces."""
BYTE_ORDER_MARK = "\ufeff"


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a CoNLL file: Predictions if it has a column `prediction`, else a Dataset."""
    with open_text(path, options.encoding) as file:
        layout = detect_layout(file, str(path), options)
        sources = select_sources(layout.sources, options, str(path))
        columns = [f"{SOURCE_PREFIX}{name}" for name in sources]
        columns += [name for name in ("gold", "prediction") if name in layout.columns]
        tag_rows = TagRowIndex(
            [name.removeprefix(SOURCE_PREFIX) for name in columns],
            layout.metadata.select_types(options),
            abstain_tags=(ABSTAIN_TAG,),
            num_vote_columns=len(sources),
        )
        tag_columns = [layout.columns.index(name) for name in columns]
        parser = LineParser(str(path), layout, tag_rows, tag_columns)
        parser.read(file)
    if not parser.lengths and not layout.is_native:
        raise DataError(f"{path}: the file has no sentences: expected lines of a token and its tags")
    is_external = not layout.is_native or layout.scheme == "io"
    repair = TagRepair(options.on_illegal, issues, detect_scheme=is_external)
    with error_location(str(path)):
        content = _build(layout, parser, tag_rows, sources, options, repair)
    return FileContent(content, layout.metadata.undecided_sources(sources, options))


def _build(
    layout: Layout,
    parser: LineParser,
    tag_rows: TagRowIndex,
    sources: tuple[str, ...],
    options: ReadOptions,
    repair: TagRepair,
) -> LabeledData:
    """Return the dataset or the predictions of all parsed lines."""
    metadata, tokens, ending_ids = layout.metadata, parser.tokens(), parser.ending_ids
    tags = build_tag_set(metadata.select_types(options), tag_rows.types, options.default_types)
    offsets = lengths_to_offsets(np.frombuffer(parser.lengths, np.int64))
    row_ids = np.array(parser.ending_rows, np.int32)[ending_ids]
    labels = np.empty((len(tag_rows.columns), len(tokens)), np.int16)
    for column in range(len(tag_rows.columns)):
        labels[column] = tag_rows.labels(column, row_ids, offsets, tags, where=parser.location, repair=repair)
    labels_by_column = dict(zip(tag_rows.columns[len(sources) :], labels[len(sources) :], strict=True))
    data = Dataset(
        tags=tags,
        tokens=tokens,
        offsets=offsets,
        sources=sources,
        votes=np.ascontiguousarray(labels[: len(sources)].T),
        unmarked=metadata.unmarked_by_source(sources, options),
        gold=labels_by_column.get("gold"),
        doc_ids=parser.doc_ids(),
    )
    if "prediction" not in labels_by_column:
        return metadata.restore(data)
    has_scores = "score" in layout.columns
    predictions = Predictions(
        data=data,
        labels=labels_by_column["prediction"],
        span_scores=_scores(labels_by_column["prediction"], data, ending_ids, parser) if has_scores else None,
        **metadata.prediction_fields(),
    )
    return metadata.restore(predictions)


def _scores(
    labels: NDArray[np.int16], data: Dataset, ending_ids: NDArray[np.int32], parser: LineParser
) -> NDArray[np.float32]:
    """Return the score of each span, taken from the line of its first token.  -> (S,)"""
    spans = data.tags.spans(labels, data.offsets)
    span_starts = data.offsets[spans.sentence] + spans.start
    scores: NDArray[np.float32] = np.array(parser.ending_scores, np.float32)[ending_ids[span_starts]]
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        location = parser.location(int(span_starts[missing[0]]))
        raise DataError(f"{location}: expected a score for the span, got '-'")
    return scores


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a header and one block of lines per sentence."""
    data = get_dataset(content)
    columns = ["token", *(f"{SOURCE_PREFIX}{name}" for name in data.sources)]
    columns += ["gold"] if data.gold is not None else []
    if isinstance(content, Predictions):
        columns += ["prediction"] if content.spans.score is None else ["prediction", "score"]
    columns += ["_"] if len(columns) == 1 else []  # otherwise a token could look like a comment
    for name in data.tags.types:
        if UNSUPPORTED_CHARACTERS.search(name) or "\0" in name:
            raise FormatError(f"{path.name}: format 'conll' cannot store the entity type {name!r}")
    metadata = Metadata.from_content(content, columns=columns, scheme=options.scheme).without_inferable_contents(
        content
    )
    header = {name: value for name, value in metadata.to_dict().items() if name != "sources"}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADER_PREFIX.decode()}{dump_json(header, path.name)}\n\n")
        for first in range(0, len(data), SENTENCES_PER_CHUNK):
            file.writelines(_sentence_blocks(content, data, first, path.name, options))


def write_plain(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write token and tag of each line, with the score of the span between them if the options ask for it."""
    data, all_labels = get_dataset(content), get_labels(content, path.name)
    separator = "\t" if path.suffix.lower() == ".tsv" else " "
    tags = TagSet(
        tuple(_plain_field(name, separator, f"{path.name}: entity type", options) for name in data.tags.types)
    )
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for first in range(0, len(data), SENTENCES_PER_CHUNK):
            chunk = data[first : first + SENTENCES_PER_CHUNK]
            token_slice = slice(int(data.offsets[first]), int(data.offsets[first + len(chunk)]))
            columns = [_plain_tokens(chunk, first, separator, path.name, options)]
            if options.scores and isinstance(content, Predictions) and content.spans.score is not None:
                columns.append(_score_column(content, first, chunk))
            columns.append(_tags(all_labels[token_slice], tags, chunk.offsets, first, path.name, options))
            lines = [separator.join(row) + "\n" for row in zip(*columns, strict=True)]
            for start, end in pairwise(chunk.offsets.tolist()):
                if start < end:
                    file.writelines(lines[start:end])
                    file.write("\n")


def plain_form(content: LabeledData, path: Path, options: WriteOptions) -> Format | None:
    """Return the plain format for predictions and for gold labels without votes, unless the options ask for more."""
    if options.metadata is not None:
        return None if options.metadata else PLAIN_FORMAT
    is_plain = isinstance(content, Predictions) or (content.gold is not None and not content.sources)
    return PLAIN_FORMAT if is_plain else None


def _plain_tokens(chunk: Dataset, first: int, separator: str, where: str, options: WriteOptions) -> list[str]:
    """Return the tokens of a chunk; FormatError if one would not be read back as one token."""
    tokens = chunk.tokens.to_list()
    if first == 0 and tokens and tokens[0].startswith(BYTE_ORDER_MARK):
        raise FormatError(f"{where}: sentence 0: token 0 starts with a byte order mark, which readers drop")
    unsupported = _unsupported_in_plain(separator)
    if "" not in tokens and not unsupported.search("".join(tokens)) and DOCSTART.decode() not in tokens:
        return tokens
    for index, token in enumerate(tokens):
        if not token or unsupported.search(token) or token == DOCSTART.decode():
            sentence, number = locate(chunk.offsets, index)
            tokens[index] = _plain_field(
                token, separator, f"{where}: sentence {first + sentence}: token {number}", options
            )
    return tokens


def _plain_field(text: str, separator: str, where: str, options: WriteOptions) -> str:
    """Return a token or a type as one column; with `allow_lossy`, "_" stands for what a column cannot contain."""
    unsupported = _unsupported_in_plain(separator)
    if text and not unsupported.search(text) and text != DOCSTART.decode():
        return text
    if options.allow_lossy:
        return "_" if text == DOCSTART.decode() else unsupported.sub("_", text) or "_"
    raise FormatError(
        f"{where}: {text!r} is not one column of plain CoNLL; write metadata=True (--metadata), a .tsv file, "
        "or pass allow_lossy=True to replace white space by '_'"
    )


def _unsupported_in_plain(separator: str) -> re.Pattern[str]:
    return UNSUPPORTED_CHARACTERS if separator == "\t" else WHITESPACE


def _sentence_blocks(
    content: LabeledData, data: Dataset, first: int, where: str, options: WriteOptions
) -> Iterator[str]:
    """Yield the lines of up to SENTENCES_PER_CHUNK sentences from `first` on."""
    chunk = data[first : first + SENTENCES_PER_CHUNK]
    token_slice = slice(int(data.offsets[first]), int(data.offsets[first + len(chunk)]))
    tokens = chunk.tokens.to_list()
    _check_tokens(tokens, chunk, first, where)
    labels = [*chunk.votes.T, *(() if chunk.gold is None else (chunk.gold,))]
    if isinstance(content, Predictions):
        labels.append(content.labels[token_slice])
    columns = [tokens, *(_tags(column, chunk.tags, chunk.offsets, first, where, options) for column in labels)]
    if isinstance(content, Predictions) and content.spans.score is not None:
        columns.append(_score_column(content, first, chunk))
    if len(columns) == 1:
        columns.append(["_"] * len(tokens))
    lines = ["\t".join(row) + "\n" for row in zip(*columns, strict=True)]
    doc_ids = None if chunk.doc_ids is None else chunk.doc_ids.to_list()
    for sentence, (start, end) in enumerate(pairwise(chunk.offsets.tolist())):
        if doc_ids is not None:
            yield f"{DOC_ID_PREFIX.decode()}{dump_json(doc_ids[sentence], where)}\n"
        yield "".join(lines[start:end]) or f"{EMPTY_SENTENCE.decode()}\n"
        yield "\n"


def _check_tokens(tokens: list[str], chunk: Dataset, first: int, where: str) -> None:
    """Raise FormatError for a token that is empty or contains an unsupported character."""
    if "" not in tokens and not UNSUPPORTED_CHARACTERS.search("".join(tokens)):
        return
    index = next(position for position, token in enumerate(tokens) if not token or UNSUPPORTED_CHARACTERS.search(token))
    sentence, token = locate(chunk.offsets, index)
    raise FormatError(
        f"{where}: sentence {first + sentence}: format 'conll' cannot store token {token}, {tokens[index]!r}"
    )


def _tags(
    labels: NDArray[np.int16], tags: TagSet, offsets: NDArray[np.int64], first: int, where: str, options: WriteOptions
) -> list[str]:
    """Return the labels of a column as tags of the scheme."""
    scheme = options.scheme
    if scheme == "bio":  # written as they are, including illegal ones
        names = [*tags.names, ABSTAIN_TAG]
        return [names[label] for label in labels.tolist()]
    labels, _ = tags.repair(labels, offsets)
    if scheme == "io" and not options.allow_lossy:
        position, type_index = from_bio(labels)
        merged = (position[1:] == ChunkPosition.BEGIN) & (position[:-1] > 0) & (type_index[1:] == type_index[:-1])
        merged &= ~is_sentence_start(len(labels), offsets)[1:]
        if merged.any():
            sentence = first + locate(offsets, int(np.flatnonzero(merged)[0]) + 1)[0]
            raise FormatError(
                f"{where}: sentence {sentence}: scheme 'io' would merge two adjacent spans; "
                "choose another scheme or pass allow_lossy=True"
            )
    codes, names = scheme_codes(labels, offsets, tags.types, scheme)
    names[ABSTAIN] = ABSTAIN_TAG
    return [names[code] for code in codes.tolist()]


def _score_column(content: Predictions, first: int, chunk: Dataset) -> list[str]:
    """Return for each token the score of its span, "-" outside spans."""
    spans = content.spans
    bounds = np.searchsorted(spans.sentence, [first, first + len(chunk)])
    chunk_spans = spans.take(slice(*bounds.tolist()))
    column = ["-"] * len(chunk.tokens)
    first_tokens = chunk.offsets[chunk_spans.sentence - first]
    scores: list[Any] = [] if chunk_spans.score is None else shortest_floats(chunk_spans.score)
    for start, end, score in zip(
        (first_tokens + chunk_spans.start).tolist(),
        (first_tokens + chunk_spans.end).tolist(),
        scores,
        strict=True,
    ):
        column[start:end] = [repr(score)] * (end - start)
    return column


FORMAT = Format(
    name="conll",
    summary="CoNLL columns: one line per token with its tags in BIO, IO, IOBES or BILUO",
    suffixes=(".conll", ".bio", ".iob", ".iob2", ".tsv", ".txt"),
    capabilities=frozenset({"abstain within a sentence", "documents", "empty sentences", "scores", "model"}),
    read=read,
    write=write,
    plain_form=plain_form,
)
PLAIN_FORMAT = replace(
    FORMAT,
    write=write_plain,
    # It contains no votes, and is documented to leave out scores and the model.
    capabilities=frozenset(CAPABILITIES) - {"empty sentences", "text", "documents"},
)
