"""A program that raises, and the same one mended."""

from __future__ import annotations

from millpond import Map, Partitioned, Program, entry


class Faulty(Program):
    held = Partitioned(Map[int, int])

    @entry
    def divide(self, key: int, divisor: int) -> int:
        self.held[key] = 10 // divisor
        return self.held[key]


class Mended(Program):
    held = Partitioned(Map[int, int])

    @entry
    def divide(self, key: int, divisor: int) -> int:
        self.held[key] = 10 // divisor if divisor else 0
        return self.held[key]
