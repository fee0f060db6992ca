"""Errors cross the API socket as themselves."""

import pytest

from actors import errors
from actors.api.failures import RequestRefused, append_failed, failed, to_error
from actors.errors import NotMaster, NotStored, OutcomeUnknown, TriologError

FAMILIES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, NotStored | OutcomeUnknown)
]


@pytest.mark.parametrize("cls", FAMILIES)
def test_every_error_of_an_append_crosses(cls: type[TriologError]) -> None:
    if issubclass(cls, OutcomeUnknown):
        error: TriologError = cls("text", 100, 200)
    elif cls is NotMaster:
        error = NotMaster("text", "n1")
    else:
        error = cls("text")
    for frame in (failed(7, error), append_failed(7, error)):
        assert frame.id == 7
        reported = to_error(frame)
        assert type(reported) is cls
        assert str(reported) == "text"
        assert vars(reported) == vars(error)


@pytest.mark.parametrize("base", [errors.TooLarge, errors.ReplicationTimeout])
def test_a_class_that_the_other_side_does_not_know_crosses_as_its_base(
    base: type[TriologError],
) -> None:
    class Special(base):  # type: ignore[valid-type,misc]
        pass

    assert type(to_error(failed(1, Special("text")))) is base


def test_a_refusal_keeps_its_name() -> None:
    reported = to_error(failed(1, RequestRefused("NotAvailable", "later")))
    assert isinstance(reported, RequestRefused)
    assert (reported.error, str(reported)) == ("NotAvailable", "later")


@pytest.mark.parametrize("error", [ValueError("x"), errors.StorageError("x"), TriologError("x")])
def test_anything_else_is_internal_and_an_append_in_doubt(error: Exception) -> None:
    assert failed(1, error).error == "Internal"
    assert type(to_error(append_failed(1, error))) is OutcomeUnknown


def test_long_texts_are_cut() -> None:
    assert len(failed(1, ValueError("x" * 100_000)).message) < 2000
