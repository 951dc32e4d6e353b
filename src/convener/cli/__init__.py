"""The command line: thin commands over the library."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from convener import __version__, progress
from convener.cli import answers, cache, compare, data, demo, doctor, encoders, lf, models, report, taggers
from convener.cli.console import STDERR, print_message
from convener.errors import ConvenerError, ConvenerWarning

app = typer.Typer(
    name="convener",
    help="Weakly supervised sequence labeling: combine noisy labeling functions into one set of labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Some versions of typer bundle click, others use the installed one: take the class from typer itself.
UsageError: Any = typer.BadParameter.__bases__[0]
BAD_INPUT, INTERRUPTED = 2, 130
GLOBAL_OPTIONS = ("--debug", "--quiet")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"convener {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, metavar="", help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show tracebacks; accepted anywhere on the command line.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", metavar="", help="Print no remarks and no progress; accepted anywhere on the command line."
        ),
    ] = False,
) -> None:
    """Options of every command; `main` removes --debug and --quiet before parsing."""


app.command()(demo.demo)
app.command()(data.convert)
app.command()(data.analyze)
app.command()(encoders.encode)
app.command()(models.fit)
app.command()(models.predict)
app.command()(taggers.train_tagger)
app.command()(models.evaluate)
app.command()(compare.compare)
app.command()(compare.benchmark)
app.command()(report.report)
app.command()(report.view)
app.command()(report.plot)
app.command()(answers.suggest_answers)
app.command()(doctor.doctor)
app.add_typer(lf.lf_app, name="lf", no_args_is_help=True)
app.add_typer(models.model_app, name="model", no_args_is_help=True)
app.add_typer(data.format_app, name="format", no_args_is_help=True)
app.add_typer(encoders.encoder_app, name="encoder", no_args_is_help=True)
app.add_typer(cache.cache_app, name="cache", no_args_is_help=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; bad input gives one line on standard error and exit code 2, a traceback only with --debug."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in argv
    progress.set_quiet("--quiet" in argv)
    with warnings.catch_warnings():
        warnings.simplefilter("default", ConvenerWarning)
        warnings.showwarning = _show_warning
        sys.exit(_run([argument for argument in argv if argument not in GLOBAL_OPTIONS], debug=debug))


def _run(arguments: list[str], *, debug: bool) -> int:
    try:
        code = app(arguments, prog_name="convener", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # newer versions of typer handle the interrupt themselves
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (ConvenerError, UsageError) as error:
        if debug:
            raise
        if line := _one_line(error):
            print_message("error", line)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        print_message("stopped", "Interrupted; incomplete output was removed")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed the pipe (`| head`): not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _one_line(error: Any) -> str:
    """The message of an error on one line; a usage error also names the command whose help explains it.

    Empty if the command has already printed its help.
    """
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if not message:
        return ""
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return " ".join(message.split()) + hint


def _show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
    if issubclass(category, ConvenerWarning):
        print_message("warning", " ".join(str(message).split()))
    else:
        STDERR.print(f"{category.__name__}: {message}", markup=False, highlight=False)
