"""The words of a script's line: names and numbers, and options for one setting or for both."""

from __future__ import annotations

from typing import Any

Options = dict[str, Any]


def value_of(text: str) -> Any:
    """A word of a script as TOML would read it; names need no quotes."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def split(line: str, setting: str) -> tuple[list[str], Options]:
    """Words, and options; `upstream.key=value` and `ours.key=value` are for one setting."""
    words: list[str] = []
    options: Options = {}
    for word in line.split():
        key, given, text = word.partition("=")
        who, dot, only = key.partition(".")
        if not given:
            words.append(word)
        elif not dot:
            options.setdefault(key, value_of(text))
        elif who == setting:
            options[only] = value_of(text)
    return words, options
