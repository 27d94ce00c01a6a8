from __future__ import annotations

import time

from millpond.clock import ManualClock, SystemClock


def test_the_system_clock_tells_the_time_of_the_machine():
    before = time.time_ns() // 1_000_000
    told = SystemClock().now_ms()
    assert before <= told <= time.time_ns() // 1_000_000


def test_ticks_never_go_back_and_a_sleep_takes_its_time():
    clock = SystemClock()
    begun = clock.ticks()
    clock.sleep(0.001)
    assert clock.ticks() - begun >= 0.001


def test_a_manual_clock_stands_still_until_it_is_turned():
    clock = ManualClock(5000)
    assert clock.now_ms() == clock.now_ms() == 5000
    clock.advance(250)
    assert clock.now_ms() == 5250
    assert clock.ticks() == 5.25


def test_sleeping_on_a_manual_clock_turns_it_at_once():
    clock = ManualClock()
    begun = SystemClock().ticks()
    clock.sleep(3600)
    assert clock.now_ms() == 3_600_000
    assert SystemClock().ticks() - begun < 60
