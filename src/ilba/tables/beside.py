"""The file beside a store: the secret that drew its masks, if it was made for this store."""

from __future__ import annotations

from pathlib import Path

from ilba.errors import SecretError, notice
from ilba.secret.secret import Secret


def secret_path(store: Path) -> Path:
    """The place of a store's secret if none was given."""
    return store.with_suffix(".secret")


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
    secret.to_file(place)
    notice(
        f"no secret was given, so a new one was made and saved as {str(place)!r} (only you can read it). "
        f"Keep it: the same secret gives the same masks tomorrow, and another secret would give counts away."
    )


def warn_of_another_secret(target: Path, before: str | None, now: str | None) -> None:
    """Give a notice if a store replaces one whose masks another secret drew."""
    if before and now and before != now:
        notice(
            f"the store at {str(target)!r} was masked with another secret (fingerprint {before}). "
            f"Give that one, or another path: publishing from both gives counts away."
        )
