"""The command suggest-answers: where a crowd should answer again, and who."""

from __future__ import annotations

from typing import Annotated

import typer

from convener.cli import console, options
from convener.cli.options import ReadingOptions, with_reading_options
from convener.cli.reading import read_dataset
from convener.cli.report import args_for_report
from convener.evaluation.answers import suggest_answers as find_suggestions
from convener.experiment.run import Run


@with_reading_options
def suggest_answers(
    model_dir: options.ModelDir,
    *,
    data: options.DataPath = None,
    split: options.TrainFirstSplit = None,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="Number of documents.")] = 20,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Documents of a crowd that deserve another answer, and the workers to ask. No gold is used."""
    run = Run.open(model_dir)
    args = args_for_report(run, reading.args(data or run.data_path, split))
    dataset, model = read_dataset(args, run=run), run.label_model
    with console.show_logs():
        predictions = model.predict(dataset)
    found = find_suggestions(dataset, predictions, number=number)
    if as_json:
        console.print_json(found.to_json())
    else:
        console.print_result(found)
