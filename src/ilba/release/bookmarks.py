"""Bookmarks: files beside a store and a secret that say how far the ledger was. Confidential.

A ledger that was lost, or replaced by an older copy, has forgotten masks that were published. The bookmarks notice it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ilba.errors import InputError, StoreError, UnsafeRelease, WriteError, listing, notice
from ilba.files import replacing
from ilba.release.ledger import Ledger
from ilba.secret.secret import Secret
from ilba.tables.beside import bookmark_path, published_path

_FORMAT = 2
"""the format of the file beside a store; format 1 took the place of the ledger before there was one"""


def write(ledger: Ledger, secret: Secret | None, store: Path | None, population: str) -> None:
    """Write the state of the ledger beside store and secret."""
    tip = {"entry": ledger.tip["n"], "digest": ledger.tip["digest"]}
    if secret is not None and secret.place is not None:
        with contextlib.suppress(InputError, WriteError):  # a secret may be in a read-only place
            file = bookmark_path(secret.place)
            _replace(file, {"format": 1, "ledgers": {**_ledgers(file), str(ledger.path): tip}})
    if store is not None:
        named = {"ledger": str(ledger.path), "population": population}
        _replace(published_path(store), {"format": _FORMAT, **named, **tip})


def _replace(file: Path, plain: Mapping[str, Any]) -> None:
    with replacing(file) as temporary:
        text = json.dumps({"confidential": True, **plain}, ensure_ascii=False, indent=1)
        temporary.write_text(text + "\n", encoding="utf-8")


def _ledgers(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))["ledgers"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(
            f"{str(file)!r} is damaged. It records the state of the ledgers of this secret: restore it from a copy."
        ) from None


def tell_others(secret: Secret, new: Path) -> None:
    """Tell of the ledgers that know what was published under this secret, where a new one is used."""
    others = {} if secret.place is None else _ledgers(bookmark_path(secret.place))
    others.pop(str(new), None)
    if others:
        notice(
            f"this ledger is new, and does not know what was published under this secret with {listing(others)}. "
            f"The same people would be published with other masks, which gives small counts away: give that ledger= "
            f"(--ledger), or ILBA_LEDGER, unless these are other people."
        )


def refuse_older(secret: Secret, ledger: Path, holds: Callable[[int, str], bool]) -> None:
    """Refuse a ledger that was lost or is an old copy, even if the store is built anew each time."""
    if secret.place is None:
        return
    file = bookmark_path(secret.place)
    told = _ledgers(file).get(str(ledger))
    if told is not None and not holds(int(told["entry"]), str(told["digest"])):
        raise StoreError(
            f"the ledger {str(ledger)!r} was lost or is an older copy: it does not hold the last publication under "
            f"this secret. Masks that were published would be forgotten, so nothing was published. Restore the newest "
            f"copy, or enter again what was published: ilba ledger adopt RELEASE --store STORE. Where nobody outside "
            f"ever saw any of it, remove {str(file)!r} and begin anew."
        )


def refuse_trial(store: Path | None) -> None:
    """Refuse a trial from a store that was already published."""
    if store is not None and published_path(store).exists():
        raise UnsafeRelease(
            f"this store was published before ({str(published_path(store))!r}), so it cannot be published as a trial: "
            f"other masks would reveal small counts. Leave ledger=False (--no-ledger) out. To look at another method "
            f"without publishing: ilba compare STORE --method NAME, or ilba audit STORE --method NAME."
        )


def population_at(store: Path | None, ledger: Ledger) -> str:
    """The population last published from a store, after a check that the ledger is not an old copy."""
    if store is None:
        return ""
    file = published_path(store)
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
        if plain["format"] == 1:
            if plain["publications"]:
                raise UnsafeRelease(
                    f"this store was published before there was a ledger ({str(file)!r}). Enter that first, so that "
                    f"its masks stay: ilba ledger adopt RELEASE --store {store}"
                )
            return ""
        name, number, digest = str(plain["population"]), int(plain["entry"]), str(plain["digest"])
        there = str(plain["ledger"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(
            f"{str(file)!r} is damaged. It records the state of the ledger when this store was last published: "
            f"restore it from a copy."
        ) from None
    if not ledger.holds(number, digest):
        raise StoreError(
            f"the ledger {str(ledger.path)!r} does not hold the last publication of this store: it is an older copy, "
            f"or another one ({there!r} was used). Masks that were published would be forgotten, so nothing was "
            f"published. Restore the newest copy, give ledger= (--ledger), or enter again what was published after the "
            f"copy: ilba ledger adopt RELEASE --store STORE."
        )
    return name
