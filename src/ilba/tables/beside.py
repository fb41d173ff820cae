"""The file beside a store: the secret that drew its masks, if it was made for this store."""

from __future__ import annotations

from pathlib import Path

from ilba.errors import Notice, SecretError, listing, notice
from ilba.secret.secret import Secret


def secret_path(store: Path) -> Path:
    """The place of a store's secret if none was given."""
    return store.with_suffix(".secret")


def ledger_path(secret: Path) -> Path:
    """The place of the ledger that uses a secret if nobody names another one."""
    return secret.with_suffix(".ledger")


def bookmark_path(secret: Path) -> Path:
    """The file beside a secret with the state of each ledger that uses it."""
    return secret.with_suffix(".ledgers.json")


def published_path(store: Path) -> Path:
    """The file beside a store that was published, with the state of the ledger."""
    stem = store.name if store.is_dir() else store.stem
    return store.with_name(stem + ".published.json")


def refuse_lost(target: Path) -> None:
    """Refuse to go on without the secret of a store, if it was lost after a publication."""
    place = secret_path(target)
    left = [file for file in (bookmark_path(place), ledger_path(place)) if file.exists()]
    if left and not place.exists():
        raise SecretError(
            f"the secret {str(place)!r} is missing, and {left[0].name!r} beside it shows that it was published with. A "
            f"new secret would draw other masks, and both publications together give counts away. Restore the secret "
            f"from its copy, or give its path."
        )


def secret_beside(target: Path) -> Path | None:
    """The secret of a store, or the only one in its folder: a renamed store keeps its secret."""
    own = secret_path(target)
    if own.exists():
        return own
    others = {Secret.from_file(file): file for file in sorted(target.parent.glob("*.secret"), reverse=True)}
    if len(others) > 1:
        names = listing(sorted(file.name for file in others.values()))
        raise SecretError(
            f"there are several secrets beside {str(target)!r} ({names}). Data about the same people needs one: give "
            f"secret= (--secret)."
        )
    return next(iter(others.values()), None)


def secret_for(target: Path | str) -> Path | None:
    """The secret for a store that is built without one: that beside its path, which a notice names."""
    if isinstance(target, str):
        raise beside_url()
    found = secret_beside(target)
    if found is not None:
        notice(f"using the secret {str(found)!r} beside the store. To name it: secret= (--secret) or ILBA_SECRET.")
    return found


def make_beside(target: Path) -> Path:
    """The secret beside a store, made if there is none."""
    found = secret_beside(target)
    if found is None:
        save_beside(Secret.new(), target)
    return found or secret_path(target)


def save_beside(secret: Secret, target: Path) -> None:
    """Save the new secret that drew the masks of a store beside the store."""
    place = secret_path(target)
    if place.exists():
        if Secret.from_file(place) != secret:
            raise SecretError(
                f"{str(place)!r} holds another secret than the new one that drew these masks. Two releases of "
                f"the same cells under two secrets give counts away. Build again with secret={str(place)!r}, "
                f"or save elsewhere."
            )
        return
    refuse_lost(target)
    secret.to_file(place)
    told = (
        f"no secret was given, so a new one was made and saved as {str(place)!r} (only you can read it). "
        f"Keep it: the same secret gives the same masks tomorrow, and another secret would give counts away."
    )
    try:
        notice(told)
    except Notice:  # --strict stops here, once
        raise Notice(f"{told} Run it again: `ilba publish` finds it, `ilba build` takes --secret {place}.") from None


def beside_url() -> SecretError:
    """The error for a new secret, which cannot be kept beside a URL."""
    return SecretError(
        "no secret was given, and beside a URL none is kept. Make one with `ilba secret new PATH` and build "
        "with secret=PATH (--secret PATH): the same secret gives the same masks tomorrow."
    )


def warn_of_another_secret(target: Path, before: str | None, now: str | None) -> None:
    """Give a notice if a store replaces one whose masks another secret drew."""
    if before and now and before != now:
        notice(
            f"the store at {str(target)!r} was masked with another secret (fingerprint {before}). "
            f"Give that one, or another path: publishing from both gives counts away."
        )
