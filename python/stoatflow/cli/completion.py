"""`stoatflow completion bash`: print a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SCRIPT = """\
# Completes commands and options of stoatflow. In ~/.bashrc: eval "$(stoatflow completion bash)"
{prefix}_stoatflow() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=
    if (( COMP_CWORD == 1 )); then
        words="{commands}"
    else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    # Without a match the shell completes file names.
    COMPREPLY=( $(compgen -W "$words" -- "$current") )
}}
complete -o default -F _stoatflow stoatflow
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion",
        help=COMMANDS["completion"],
        description='Print a script for a shell. Load it at each start: eval "$(stoatflow completion bash)" in '
        "~/.bashrc, or with zsh in ~/.zshrc.",
    )
    parser.add_argument("shell", choices=["bash", "zsh"])
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(script(given.shell))
    return 0


def script(shell: str) -> str:
    """Return the script for a shell."""
    from stoatflow.cli import parser_of_all

    words = {name: " ".join(_words(parser)) for name, parser in _commands(parser_of_all())}
    cases = "\n".join(f'            {name}) words="{found}" ;;' for name, found in words.items())
    prefix = _ZSH if shell == "zsh" else ""
    return _SCRIPT.format(prefix=prefix, commands=" ".join(words), cases=cases)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return the options of a command, its choices, and those of its own commands."""
    for action in parser._actions:
        yield from action.option_strings
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)
    inner = (word for _, below in _commands(parser) for word in _words(below))
    yield from dict.fromkeys(word for word in inner if word not in {"-h", "--help"})
