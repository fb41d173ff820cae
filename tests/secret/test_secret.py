"""The secret keeps to itself; draws belong to cells, whatever way they come in."""

from __future__ import annotations

import copy
import hmac
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from ilba.secret.secret import Secret, draws, given_secret
from support.people import HKEY, KEY, population

RAW = bytes(range(32))


def said(error: BaseException) -> str:
    """The message, after checking that nothing stands behind it: a traceback may show what an error came from."""
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return str(error)


def one_draw(raw: bytes, cell: dict[str, str | None], count: int) -> int:
    """The construction of the docs, written a second time for one cell."""

    def derive(purpose):
        return hmac.digest(raw, b"ilba-prf-1 " + purpose, "sha256")

    block = 0
    for column, label in cell.items():
        name = column.encode()
        message = len(name).to_bytes(4, "big") + name + (b"\0" if label is None else b"\1" + label.encode())
        block ^= int.from_bytes(hmac.digest(derive(b"word"), message, "sha256")[:16], "big")
    message = b"\xff\xff\xff\xff" + count.to_bytes(8, "big")
    block ^= int.from_bytes(hmac.digest(derive(b"word"), message, "sha256")[:16], "big")
    encryptor = Cipher(algorithms.AES256(derive(b"aes")), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(block.to_bytes(16, "big"))[:8], "big") >> 11


@given(
    st.binary(min_size=32, max_size=32),
    st.dictionaries(st.text(min_size=1), st.none() | st.text(), min_size=1, max_size=5),
    st.integers(0, 2**62),
)
def test_a_draw_follows_its_published_construction(raw, cell, count):
    labels = {column: ([label], np.array([0])) for column, label in cell.items()}
    assert draws(Secret(raw), labels, [count])[0] == one_draw(raw, cell, count)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64, np.float64])
def test_a_draw_does_not_depend_on_how_the_count_is_stored(secret, dtype):
    labels = {"edu": (["1", "2", None], np.array([0, 1, 2]))}
    assert draws(secret, labels, np.array([3, 0, 200], dtype=dtype)).tolist() == [
        one_draw(RAW, {"edu": label}, count) for label, count in (("1", 3), ("2", 0), (None, 200))
    ]


def test_every_mask_of_a_store_follows_the_published_construction(finest):
    for row in finest.frame.filter(pl.col("N") < 5).iter_rows(named=True):
        cell = {column: str(row[column]) for column in HKEY + KEY}
        hit = one_draw(RAW, cell, row["N"]) * 5 < row["N"] * 2**53
        assert row["N_masked"] == (5 if hit else 0)


def test_a_secret_never_shows_itself(secret):
    shown = [repr(secret), str(secret), f"{secret}", repr([secret]), repr({"a": secret})]
    assert all(RAW.hex()[:8] not in text and "\\x00\\x01" not in text for text in shown)
    assert not hasattr(secret, "__dict__")
    for way in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="not pickled"):
            way(secret)
    with pytest.raises(AttributeError):
        secret._raw = b""


def test_secrets_are_told_apart_and_only_equal_to_themselves(secret):
    same, other = Secret(RAW), Secret(bytes(32))
    assert secret == same
    assert secret != other
    assert secret != RAW
    assert secret != secret.fingerprint
    assert {secret, same, other} == {same, other}
    assert len({secret, same, other}) == 2


@given(st.binary(min_size=32, max_size=32))
def test_the_fingerprint_and_derived_secrets_follow_the_published_construction(raw):
    secret = Secret(raw)
    assert secret.fingerprint == hmac.digest(raw, b"ilba-prf-1 fingerprint", "sha256")[:8].hex()
    assert secret.derived("chosen") == Secret(hmac.digest(raw, b"ilba-prf-1 chosen", "sha256"))


@pytest.mark.parametrize("raw", [RAW[:31], RAW + b"0", b"", "a" * 32, bytearray(32), list(range(32)), None])
def test_a_secret_is_32_bytes_and_nothing_else(raw):
    with pytest.raises(ilba.SecretError, match="32 random bytes"):
        Secret(raw)


def test_a_malformed_secret_is_refused_without_being_shown(tmp_path):
    wrong = "ilba-secret-1:" + "ab" * 31
    for text in (wrong, wrong + "zz", "ab" * 32, ""):
        with pytest.raises(ilba.SecretError, match="64 hexadecimal digits") as caught:
            Secret.from_text(text)
        assert "abab" not in said(caught.value)
    for content in (wrong.encode(), wrong.encode() + b"\xff\xfe", b""):
        (tmp_path / "k").write_bytes(content)
        (tmp_path / "k").chmod(0o600)
        with pytest.raises(ilba.SecretError, match="64 hexadecimal digits") as caught:
            Secret.from_file(tmp_path / "k")
        assert "abab" not in said(caught.value)
        assert str(tmp_path / "k") in said(caught.value)


def test_a_secret_given_where_a_path_belongs_is_not_repeated(people, monkeypatch):
    texts = ["ilba-secret-1:" + "ab" * 32, "ILBA-SECRET-1:" + "ab" * 32, "ab" * 32]
    texts += ["ab" * 12, "ilba-secret-1:abab", "ILBA-SECRET-1:abab"]  # a part of one
    for text in texts:
        for ask in (lambda t=text: ilba.build(people, HKEY, KEY, secret=t), lambda t=text: ilba.Secret.from_file(t)):
            with pytest.raises(ilba.SecretError, match="looks like a secret itself") as caught:
                ask()
            assert "abab" not in said(caught.value)
    monkeypatch.setenv("ILBA_SECRET", "ilba-secret1:" + "ab" * 32)
    with pytest.raises(ilba.SecretError) as caught:
        ilba.build(people, HKEY, KEY)
    assert "abab" not in said(caught.value)


def test_a_secret_file_may_have_any_other_name(tmp_path, secret):
    for name in ("my.ilba-secret", "ab" * 11 + ".key"):
        assert Secret.from_file(secret.to_file(tmp_path / name)) == secret


def test_a_secret_file_is_private_reads_back_and_is_never_overwritten(tmp_path):
    secret = Secret.new()
    path = secret.to_file(tmp_path / "agency.secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secret.from_file(path) == secret
    with pytest.raises(ilba.SecretError, match="exists") as caught:
        Secret.new().to_file(path)
    assert said(caught.value)
    assert Secret.from_file(path) == secret


def test_a_secret_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, secret):
    synced, real = [], os.fsync

    def watched(handle):
        real(handle)
        synced.append(sorted((path.name, path.read_text()) for path in tmp_path.iterdir() if path.is_file()))

    monkeypatch.setattr(os, "fsync", watched)
    path = secret.to_file(tmp_path / "k")
    text = f"ilba-secret-1:{RAW.hex()}-91267e8a\n"
    assert path.read_text() == text
    ((name, content),) = synced[0]
    assert (name != "k", content) == (True, text)
    assert ("k", text) in synced[1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_killed_secret_new_leaves_no_secret_and_does_not_block_the_next_one(tmp_path, call):
    path = tmp_path / "agency.secret"
    script = (
        f"import os, signal, ilba\nos.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"ilba.Secret.new().to_file({str(path)!r})"
    )
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not path.exists()
    (left,) = tmp_path.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    subprocess.run([sys.executable, "-m", "ilba", "secret", "new", str(path)], check=True, capture_output=True)
    Secret.from_file(path)
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_in_the_place_of_a_secret_is_told(tmp_path, secret):
    (tmp_path / "k").touch()
    with pytest.raises(ilba.SecretError, match=r"is an empty file, not a secret\. Remove it") as caught:
        secret.to_file(tmp_path / "k")
    assert said(caught.value)


@settings(max_examples=10)
@given(st.binary(min_size=32, max_size=32))
def test_a_secret_with_a_changed_bit_never_passes_as_another(raw):
    text = Secret(raw)._text.encode()
    for bit in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = Secret.from_text(damaged.decode("ascii", errors="replace"))
        except ilba.SecretError:
            continue
        assert found == Secret(raw)


def test_a_secret_whose_check_digits_do_not_fit_is_refused_without_being_shown(tmp_path):
    wrong = "ilba-secret-1:" + "ab" * 32 + "-00000000"
    (tmp_path / "k").write_text(wrong)
    (tmp_path / "k").chmod(0o600)
    for read in (lambda: Secret.from_text(wrong), lambda: Secret.from_file(tmp_path / "k")):
        with pytest.raises(ilba.SecretError, match="damaged: its check digits are wrong") as caught:
            read()
        assert "abab" not in said(caught.value)


def test_a_secret_without_check_digits_still_opens(secret):
    assert Secret.from_text(f"ilba-secret-1:{RAW.hex()}") == secret
    assert Secret.from_text(f"ilba-secret-1:{RAW.hex().upper()}\n") == secret


def test_a_secret_that_does_not_fit_on_the_disk_leaves_no_half_of_it(tmp_path, secret):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))  # the operating system refuses longer files
    try:
        with pytest.raises(ilba.WriteError, match="could not write") as caught:
            secret.to_file(tmp_path / "k")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert RAW.hex()[:8] not in said(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_secret_file_that_is_open_to_others_is_told(tmp_path, mode):
    path = Secret.new().to_file(tmp_path / "k")
    path.chmod(mode)
    with pytest.warns(ilba.Notice, match="chmod 600"):
        Secret.from_file(path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_secret_file_that_is_private_is_read_in_silence(tmp_path, secret, mode):
    path = secret.to_file(tmp_path / "k")
    path.chmod(mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Secret.from_file(path) == secret


def test_the_environment_gives_the_secret_or_the_path_of_its_file(tmp_path, monkeypatch, secret):
    path = secret.to_file(tmp_path / "k")
    for value in (str(path), path.read_text()):
        monkeypatch.setenv("ILBA_SECRET", value)
        assert given_secret(None) == secret
    other = Secret.new()
    assert given_secret(other) == other
    monkeypatch.setenv("ILBA_SECRET", "/no/such/file")
    with pytest.raises(ilba.SecretError, match="cannot be read") as caught:
        given_secret(None)
    assert said(caught.value)
    monkeypatch.setenv("ILBA_SECRET", " ")
    assert given_secret(None) is None
    monkeypatch.delenv("ILBA_SECRET")
    assert given_secret(None) is None


def test_what_is_neither_a_secret_nor_a_path_is_refused(people):
    with pytest.raises(ilba.SecretError, match="give a Secret"):
        ilba.build(people, HKEY, KEY, secret=12345)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(HKEY + KEY), st.integers(1, 7))
def test_row_order_column_order_and_chunks_change_no_mask(seed, columns, chunks):
    people = population(600)
    whole = ilba.build(people, HKEY, KEY, secret=Secret(bytes(32))).frame
    shuffled = people.sample(fraction=1, shuffle=True, seed=seed).select(columns)
    size = -(-shuffled.height // chunks)
    pieces = pl.concat([shuffled.slice(i * size, size) for i in range(chunks)], rechunk=False)
    assert ilba.build(pieces, HKEY, KEY, secret=Secret(bytes(32))).frame.equals(whole)


def test_the_order_of_the_keys_changes_no_mask(people, secret, finest):
    turned = ilba.build(people, HKEY, KEY[::-1], secret=secret)
    assert turned.frame.select(finest.frame.columns).sort(HKEY + KEY).equals(finest.frame)


def test_another_secret_gives_independent_masks(people, finest):
    other = ilba.build(people, HKEY, KEY, secret=Secret(bytes(32)))
    small = finest.frame["N"].to_numpy() == 2
    a, b = (table.frame["N_masked"].to_numpy()[small] == 5 for table in (finest, other))
    assert small.sum() > 50
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(small.sum())


def test_a_changed_count_redraws_only_its_own_cell(people, secret, finest):
    more = pl.concat([people, people.head(1)])
    before, after = finest.frame, ilba.build(more, HKEY, KEY, secret=secret).frame
    same = before["N"] == after["N"]
    assert (~same).sum() == 1
    assert before.filter(same).equals(after.filter(same))
