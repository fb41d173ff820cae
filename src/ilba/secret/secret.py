"""The secret, and the draws that follow from it.

A draw belongs to a cell and its count, never to a row number, a run or a machine::

    word(v, l) = HMAC-SHA256(k1, len(v) as 4 bytes | v | 01 | l)[:16]      l = 00 alone where the label is missing
    word(n)    = HMAC-SHA256(k1, ff ff ff ff | n as 8 bytes)[:16]
    draw       = first 53 bits of AES-256(k2, XOR of the words of the cell's labels and of its count)

with k1 = HMAC-SHA256(secret, "ilba-prf-1 word") and k2 = HMAC-SHA256(secret, "ilba-prf-1 aes"). Names and labels are
UTF-8, whole numbers are written in decimal, all integers are big-endian. The XOR does not depend on the order of
the columns; two different cells have the same XOR with probability 2^-128. One word is needed per label, not per cell,
and AES runs over all cells in one call: a million draws take a fraction of a second.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.design.labels import Label, label_text
from ilba.errors import SecretError, WriteError, notice
from ilba.files import creating, writable

PRF = "ilba-prf-1"
DRAW_BITS = 53
ENVIRONMENT = "ILBA_SECRET"
_PREFIX = "ilba-secret-1:"
_LENGTH = 32
_TEXT = re.compile(rf"{_PREFIX}([0-9a-fA-F]{{{2 * _LENGTH}}})(?:-([0-9a-fA-F]{{8}}))?")

IntArray: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]


class Secret:
    """The secret of an agency. It never prints itself, is never pickled and never part of a store.

    Parameters
    ----------
    raw : bytes
        32 random bytes. `Secret.new` makes them.
    place : Path, optional
        Its file. Without it, the secret exists only in memory.

    Raises
    ------
    SecretError
        These are not 32 bytes.

    Examples
    --------
    >>> secret = Secret.from_text("ilba-secret-1:" + "00" * 32)
    >>> secret
    Secret(fingerprint='f62aa6d18509bcfb')
    """

    __slots__ = ("_raw", "place")
    _raw: bytes
    place: Path | None
    """the file that it was read from or written to; None if it exists only in memory"""

    def __init__(self, raw: bytes, place: Path | None = None) -> None:
        if not isinstance(raw, bytes) or len(raw) != _LENGTH:
            raise SecretError(f"a secret is {_LENGTH} random bytes. Make one with `ilba secret new PATH`.")
        object.__setattr__(self, "_raw", raw)
        object.__setattr__(self, "place", place)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    @classmethod
    def new(cls) -> Secret:
        """Make a new secret from the operating system's randomness.

        Returns
        -------
        Secret
            The secret. It exists only in memory until `to_file` writes it.
        """
        return cls(secrets.token_bytes(_LENGTH))

    @classmethod
    def from_text(cls, text: str) -> Secret:
        """Read the text of a secret file: `ilba-secret-1:`, 64 hexadecimal digits, a dash and 8 check digits.

        Older secret files end after the 64 digits.

        Parameters
        ----------
        text : str
            The text of the file.

        Returns
        -------
        Secret
            The secret.

        Raises
        ------
        SecretError
            The text is not a secret, or its check digits are wrong. The message does not show the text.
        """
        # The text itself may be a secret with a typing error in it: do not show it, not even in the traceback.
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise SecretError(
                f"this is not a secret of ilba: expected {_PREFIX!r} and {2 * _LENGTH} hexadecimal digits, with a dash "
                f"and 8 check digits in newer ones. Make one with `ilba secret new PATH`."
            )
        raw, check = bytes.fromhex(found[1]), found[2]
        if check is not None and check.lower() != _check_digits(raw):
            raise SecretError(
                "this secret is damaged: its check digits are wrong. Restore it from a copy; another "
                "secret would draw other masks for the same people."
            )
        return cls(raw)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Secret:
        """Read a secret file made by `ilba secret new`.

        Parameters
        ----------
        path : path
            The file. A notice warns if others can read it.

        Returns
        -------
        Secret
            The secret.

        Raises
        ------
        SecretError
            The file cannot be read, or is not a secret.
        """
        file = Path(path)
        if re.search(r"[0-9a-fA-F]{24}", file.name) or file.name.lower().startswith("ilba-secret"):
            # The user gave the secret itself, or a part of it, instead of a path: do not repeat it.
            raise SecretError(
                "this looks like a secret itself. Give the path of a secret file, or Secret.from_text(...) in Python, "
                "or put the text of the secret file into ILBA_SECRET."
            )
        try:
            with file.open("rb") as handle:
                mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
                content = handle.read(4096)
        except OSError as problem:
            raise SecretError(
                f"the secret file {str(file)!r} cannot be read ({problem.strerror}). "
                f"Give the path of the secret that drew the published masks. Only if nothing was published yet, make "
                f"one: ilba secret new {file}"
            ) from None
        if os.name == "posix" and mode & 0o077:
            notice(f"the secret file {str(file)!r} can be read by others. Type: chmod 600 {file}")
        try:
            return cls(cls.from_text(content.decode("ascii", errors="replace"))._raw, Path(os.path.realpath(file)))
        except SecretError as problem:
            raise SecretError(f"{str(file)!r}: {problem}") from None

    @classmethod
    def from_environment(cls) -> Secret | None:
        """Read the secret in ILBA_SECRET, which is its text or the path of its file.

        Returns
        -------
        Secret or None
            The secret; None if ILBA_SECRET is not set.

        Raises
        ------
        SecretError
            ILBA_SECRET is not a secret, or names a file that is not a secret or cannot be read.
        """
        given = os.environ.get(ENVIRONMENT, "").strip()
        if not given:
            return None
        return cls.from_text(given) if given.startswith(_PREFIX) else cls.from_file(given)

    def to_file(self, path: str | os.PathLike[str]) -> Path:
        """Write the secret to a new file that only you can read.

        Parameters
        ----------
        path : path
            Where to write. An existing file is never overwritten.

        Returns
        -------
        Path
            The written file.

        Raises
        ------
        SecretError
            The file exists.
        WriteError
            The file could not be written.
        """
        try:
            with creating(path) as temporary:
                temporary.write_text(self._text, encoding="ascii")
        except FileExistsError:
            target = Path(path)
            if target.is_file() and not target.stat().st_size:
                raise SecretError(f"{os.fspath(path)!r} is an empty file, not a secret. Remove it first.") from None
            raise SecretError(
                f"{os.fspath(path)!r} exists and was not changed: masks drawn with a lost secret cannot be drawn "
                f"again. Choose another name, or move the file away yourself."
            ) from None
        except WriteError as problem:  # without its cause, which may show the secret
            raise WriteError(str(problem)) from None
        if self.place is None:
            object.__setattr__(self, "place", writable(path))
        return writable(path)

    def to_bytes(self) -> bytes:
        """Give the 32 bytes of the secret itself. Keep them as safe as its file.

        Returns
        -------
        bytes
            The argument of `Secret(...)`.
        """
        return self._raw

    @property
    def number(self) -> int:
        """A 64-bit whole number, for a random decision by a derived secret."""
        return int.from_bytes(self._raw[:8], "big")

    @property
    def _text(self) -> str:
        return f"{_PREFIX}{self._raw.hex()}-{_check_digits(self._raw)}\n"

    @property
    def fingerprint(self) -> str:
        """Sixteen digits that identify a secret without disclosing it."""
        return self._derive("fingerprint")[:8].hex()

    def derived(self, purpose: str) -> Secret:
        """Derive a secret for another purpose that discloses nothing about this one.

        Parameters
        ----------
        purpose : str
            The purpose. The same purpose gives the same secret.

        Returns
        -------
        Secret
            The derived secret.
        """
        return Secret(self._derive(purpose))

    def hashes(self, texts: Iterable[str]) -> Words:
        """Compute a 64-bit number for each text; it cannot be computed without the secret.

        Parameters
        ----------
        texts : iterable of str
            The texts.

        Returns
        -------
        array of uint64
            The numbers.
        """
        own = self._derive("hash")
        joined = b"".join(_hmac(own, text.encode())[:8] for text in texts)
        return np.frombuffer(joined, dtype=">u8").astype(np.uint64)

    def _derive(self, purpose: str) -> bytes:
        return _hmac(self._raw, f"{PRF} {purpose}".encode())

    def __repr__(self) -> str:
        return f"Secret(fingerprint={self.fingerprint!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._raw, other._raw)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: it would end up in files and logs. Pass the path of its file.")


def given_secret(secret: Secret | str | os.PathLike[str] | None) -> Secret | None:
    """Return the user's secret: a Secret, the path of a secret file, or that of ILBA_SECRET; None if there is none."""
    if secret is None:
        return Secret.from_environment()
    if isinstance(secret, Secret):
        return secret
    if isinstance(secret, str | os.PathLike):
        return Secret.from_file(secret)
    raise SecretError(f"secret is a {type(secret).__name__}; give a Secret or the path of a secret file.")


def draws(
    secret: Secret, labels: Mapping[str, tuple[Sequence[Label], npt.NDArray[Any]]], counts: npt.ArrayLike
) -> IntArray:
    """A uniform integer on 0 .. 2^53 - 1 for each cell, decided only by its labels, its count and the secret.

    `labels` gives the distinct labels of each column, and the index of each cell's label among them.

    >>> secret = Secret.from_text("ilba-secret-1:" + "00" * 32)
    >>> draws(secret, {"edu": (["1", "2"], np.array([0, 1]))}, [3, 3])
    array([5718385935605881, 1940246438964697])
    """
    distinct, place = np.unique(np.asarray(counts, dtype=np.int64), return_inverse=True)
    block = count_words(secret, distinct.tolist())[place]
    for column, (known, codes) in labels.items():
        block ^= label_words(secret, column, known)[codes]
    return drawn(secret, block)


def label_words(secret: Secret, column: str, labels: Sequence[Label]) -> Words:
    """The words of the labels of a column, a row each. Words of a cell are joined by XOR, in any order."""
    return _words(secret, [_label_message(column, label) for label in labels])


def count_words(secret: Secret, counts: Iterable[int]) -> Words:
    """The words of counts, a row each."""
    return _words(secret, [b"\xff" * 4 + n.to_bytes(8, "big") for n in counts])


def drawn(secret: Secret, words: Words) -> IntArray:
    """The draws of cells from their joined words."""
    return (tagged(secret, words) >> np.uint64(64 - DRAW_BITS)).astype(np.int64)


def tagged(secret: Secret, words: Words) -> Words:
    """The tags of cells, 64 bits each, from their joined words. Without the secret they look like noise."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES256(secret._derive("aes")), modes.ECB())  # noqa: S305 - one block per cell: a PRF
    encrypted = np.frombuffer(cipher.encryptor().update(words.tobytes()), dtype=">u8").reshape(-1, 2)
    return encrypted[:, 0].astype(np.uint64)


def _label_message(column: str, label: Label) -> bytes:
    name, text = column.encode(), label_text(label)
    return len(name).to_bytes(4, "big") + name + (b"\x00" if text is None else b"\x01" + text.encode())


def _words(secret: Secret, messages: Sequence[bytes]) -> Words:
    word = secret._derive("word")
    joined = b"".join(_hmac(word, message)[:16] for message in messages)
    return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def _check_digits(raw: bytes) -> str:
    """The CRC-32 of a secret: it detects changes in up to 32 neighbouring bits."""
    return f"{zlib.crc32(raw):08x}"


def _hmac(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")
