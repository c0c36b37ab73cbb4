"""When a callback is sent again: soon at first, then rarely, for three days, and then no more."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.models.deliveries.schedule import pause_after


def test_the_pauses_grow_from_five_seconds_to_a_day_over_three_days_and_eleven_tries():
    pauses = [pause_after(tries, status=500) for tries in range(1, 13)]

    assert [None if pause is None else pause.total_seconds() for pause in pauses] == [
        5,
        30,
        300,
        1800,
        7200,
        18000,
        36000,
        50400,
        72000,
        86400,
        None,
        None,
    ]
    assert sum((pause for pause in pauses if pause), timedelta()) == timedelta(hours=75, minutes=35, seconds=35)


def test_a_receiver_that_is_gone_is_not_asked_again():
    assert pause_after(1, status=410) is None


def test_a_receiver_may_ask_for_a_longer_pause_of_up_to_an_hour_and_not_for_a_shorter_one():
    assert pause_after(1, status=429, asked=timedelta(minutes=2)) == timedelta(minutes=2)
    assert pause_after(1, status=503, asked=timedelta(days=30)) == timedelta(hours=1)
    assert pause_after(3, status=429, asked=timedelta(seconds=1)) == timedelta(minutes=5)


@given(st.integers(1, 10), st.floats(0, 1))
def test_chance_lengthens_a_pause_by_a_tenth_at_most(tries: int, chance: float):
    exact, spread = pause_after(tries, status=None), pause_after(tries, status=None, chance=chance)

    assert exact is not None
    assert spread is not None
    assert exact <= spread <= exact * 1.1 + timedelta(microseconds=1)
