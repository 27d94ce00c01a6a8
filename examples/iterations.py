"""Loops over values: Borwein's fourth-order π, and a fast Fourier transform by three nested loops."""

from __future__ import annotations

import cmath
from decimal import Decimal, localcontext

from millpond.loops import Progress, iterate, rounds, within


def pi(digits: int) -> Decimal:
    """Return π to so many digits; each round gives four times as many as the one before."""
    with localcontext() as context:
        context.prec = digits + 15
        root = Decimal(2).sqrt()

        def step(state: tuple[Decimal, Decimal], progress: Progress) -> tuple[Decimal, Decimal]:
            y, a = state
            fourth = (1 - y**4).sqrt().sqrt()
            y = (1 - fourth) / (1 + fourth)
            return y, a * (1 + y) ** 4 - Decimal(2) ** (2 * progress.round + 1) * y * (1 + y + y * y)

        def apart(before: tuple[Decimal, Decimal], after: tuple[Decimal, Decimal]) -> float:
            return float(abs(after[1] - before[1]) * Decimal(10) ** (digits + 2))

        _, a = iterate((root - 1, 6 - 4 * root), step, until=within(1, of=apart) | rounds(40))
        context.prec = digits
        return +(1 / a)


def fft(values: list[complex]) -> list[complex]:
    """Return the discrete Fourier transform of 2, 4, 8, ... values."""
    size = len(values)
    bits = size.bit_length() - 1
    if size != 1 << bits:
        raise ValueError(size)
    mirrored = [values[int(format(place, f"0{bits}b")[::-1] or "0", 2)] for place in range(size)]

    def butterfly(whole: list[complex], progress: Progress) -> list[complex]:
        block, stage = progress.enclosing
        half = 1 << (stage - 1)
        low = (block - 1) * 2 * half + progress.round - 1
        turned = cmath.exp(-1j * cmath.pi * (progress.round - 1) / half) * whole[low + half]
        low_value = whole[low]
        whole[low], whole[low + half] = low_value + turned, low_value - turned
        return whole

    def blocks(whole: list[complex], progress: Progress) -> list[complex]:
        return progress.iterate(whole, butterfly, until=rounds(1 << (progress.enclosing[0] - 1)))

    def stages(whole: list[complex], progress: Progress) -> list[complex]:
        return progress.iterate(whole, blocks, until=rounds(size >> progress.round))

    return iterate(mirrored, stages, until=rounds(bits))
