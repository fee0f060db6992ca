"""What the README says is what the code says."""

import re
import tomllib
from pathlib import Path

import pytest

from actors.config.kinds import markdown

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_guarantees_are_the_codes() -> None:
    assert markdown() in README


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\]\(([^):]+)\)", README))))
def test_every_file_that_is_linked_exists(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"(?:`|^    )make ([a-z]+)", README, re.M)))
)
def test_every_make_target_exists(target: str) -> None:
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_every_public_name_is_loaded_on_demand() -> None:
    import actors

    for name in actors.__all__:
        assert getattr(actors, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = actors.nothing


def test_development_versions_meet_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    pinned = {
        name.lower().replace("_", "-"): version
        for name, version in re.findall(
            r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M
        )
    }
    for requirement in (one for group in groups for one in group):
        found = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<([\d.]+))?(?:;.*)?", requirement)
        assert found, requirement
        assert parts(found[2]) <= parts(pinned[found[1].lower()]) < parts(found[3] or "9999")


def parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
