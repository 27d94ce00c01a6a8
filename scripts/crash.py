"""Runs the campaigns of scripts/campaigns.toml from one seed: `make crash`, or `make crash SEED=7 ONLY=values`."""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAMPAIGNS = ROOT / "scripts" / "campaigns.toml"
HASH_SEEDS = 2**32
"""Python takes smaller ones."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all campaigns, or one; 1 if any of them found something, which does not keep the others from running."""
    options = _parser().parse_args(arguments)
    campaigns = tomllib.loads(CAMPAIGNS.read_text(encoding="utf-8"))
    names = [options.only] if options.only else list(campaigns)
    if unknown := [name for name in names if name not in campaigns]:
        print(f"no campaign {unknown[0]}; there are: {', '.join(campaigns)}")
        return 2
    seed = int(options.seed) if options.seed else secrets.randbelow(HASH_SEEDS)
    print(f"seed {seed}; again with: make crash SEED={seed}", flush=True)
    failed = [name for name in names if not _ended_well(name, campaigns[name], seed)]
    for name in failed:
        print(f"campaign {name} found something; again with: make crash SEED={seed} ONLY={name}")
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Try to break it: far more cases than a run of all tests has time for."
    )
    parser.add_argument("--seed", default="", help="of all campaigns; without it a fresh one, which is printed")
    parser.add_argument("--only", default="", help="one campaign, by its name")
    return parser


def _ended_well(name: str, campaign: dict[str, list[str]], seed: int) -> bool:
    print(f"--- {name}: {campaign['holds']}", flush=True)
    words = [word.format(seed=seed) for word in campaign["run"]]
    environment = {**os.environ, "MILLPOND_TEST_SEED": str(seed), "PYTHONHASHSEED": str(seed % HASH_SEEDS)}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, check=False).returncode == 0  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
