"""The key keeps to itself; draws belong to cells, whatever way they come in."""

from __future__ import annotations

import copy
import hmac
import pickle
import stat

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from conftest import HKEY, KEY, population
from ilba.secret import Secret, draws, given_secret


def one_draw(key: bytes, cell: dict[str, str | None], count: int) -> int:
    """The construction of the docs, written a second time for one cell."""

    def derive(purpose):
        return hmac.digest(key, b"ilba-prf-1 " + purpose, "sha256")

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
def test_a_draw_follows_its_published_construction(key, cell, count):
    labels = {column: ([label], np.array([0])) for column, label in cell.items()}
    assert draws(Secret(key), labels, [count])[0] == one_draw(key, cell, count)


def test_every_mask_of_a_store_follows_the_published_construction(finest):
    key = bytes(range(32))
    for row in finest.frame.filter(pl.col("N") < 5).iter_rows(named=True):
        cell = {column: str(row[column]) for column in HKEY + KEY}
        hit = one_draw(key, cell, row["N"]) * 5 < row["N"] * 2**53
        assert row["N_masked"] == (5 if hit else 0)


def test_a_secret_never_shows_its_key(secret):
    key = bytes(range(32))
    shown = [repr(secret), str(secret), f"{secret}", repr([secret]), repr({"a": secret})]
    assert all(key.hex()[:8] not in text and "\\x00\\x01" not in text for text in shown)
    assert not hasattr(secret, "__dict__")
    for way in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="not pickled"):
            way(secret)
    with pytest.raises(AttributeError):
        secret._key = b""


def test_a_malformed_key_is_refused_without_being_shown(tmp_path):
    wrong = "ilba-secret-1:" + "ab" * 31
    for text in (wrong, wrong + "zz", "ab" * 32, ""):
        with pytest.raises(ilba.SecretError) as caught:
            Secret.from_text(text)
        assert "abab" not in str(caught.value)
    (tmp_path / "k").write_text(wrong)
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(ilba.SecretError) as caught:
        Secret.from_file(tmp_path / "k")
    assert "abab" not in str(caught.value)


def test_a_key_given_where_a_path_belongs_is_not_repeated(people, monkeypatch):
    for text in ("ilba-secret-1:" + "ab" * 32, "ILBA-SECRET-1:" + "ab" * 32, "ab" * 32):
        for ask in (lambda t=text: ilba.build(people, HKEY, KEY, secret=t), lambda t=text: ilba.Secret.from_file(t)):
            with pytest.raises(ilba.SecretError) as caught:
                ask()
            assert "abab" not in str(caught.value)
    monkeypatch.setenv("ILBA_SECRET", "ilba-secret1:" + "ab" * 32)
    with pytest.raises(ilba.SecretError) as caught:
        ilba.build(people, HKEY, KEY)
    assert "abab" not in str(caught.value)


def test_a_key_file_is_private_reads_back_and_is_never_overwritten(tmp_path):
    secret = Secret.new()
    path = secret.to_file(tmp_path / "agency.secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secret.from_file(path) == secret
    with pytest.raises(ilba.SecretError, match="exists"):
        Secret.new().to_file(path)
    assert Secret.from_file(path) == secret


def test_a_key_file_that_others_can_read_is_told(tmp_path):
    path = Secret.new().to_file(tmp_path / "k")
    path.chmod(0o644)
    with pytest.warns(ilba.Notice, match="chmod 600"):
        Secret.from_file(path)


def test_the_environment_gives_the_key_or_the_path_of_its_file(tmp_path, monkeypatch, secret):
    path = secret.to_file(tmp_path / "k")
    for value in (str(path), path.read_text()):
        monkeypatch.setenv("ILBA_SECRET", value)
        assert given_secret(None) == secret
    other = Secret.new()
    assert given_secret(other) == other
    monkeypatch.setenv("ILBA_SECRET", "/no/such/file")
    with pytest.raises(ilba.SecretError, match="cannot be read"):
        given_secret(None)


def test_what_is_neither_a_secret_nor_a_path_is_refused(people):
    with pytest.raises(ilba.SecretError, match="give a Secret"):
        ilba.build(people, HKEY, KEY, secret=12345)


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
