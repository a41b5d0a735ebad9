"""m-RoPE positions of known layouts, and the same as transformers' own for any other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.encoders.qwen2_5_vl.positions import picture, with_picture, words
from support.plain_qwen import PlainQwen
from support.tiny_qwen import tiny_checkpoint

WORDS = 7  # any token that is no picture


def test_words_count_up_alike_in_all_three() -> None:
    np.testing.assert_array_equal(words(5, 3), [[5, 6, 7]] * 3)


def test_a_picture_keeps_one_time_and_spreads_over_rows_and_columns() -> None:
    np.testing.assert_array_equal(
        picture(4, 2, 3), [[4, 4, 4, 4, 4, 4], [4, 4, 4, 5, 5, 5], [4, 5, 6, 4, 5, 6]]
    )


def test_what_follows_goes_on_behind_the_longer_side() -> None:
    """Golden positions: two words, a picture of 2 x 3 tokens, two words; from 10."""
    positions, after = with_picture(10, 10, 2, (2, 3))
    np.testing.assert_array_equal(
        positions,
        [
            [10, 11, 12, 12, 12, 12, 12, 12, 15, 16],
            [10, 11, 12, 12, 12, 13, 13, 13, 15, 16],
            [10, 11, 12, 13, 14, 12, 13, 14, 15, 16],
        ],
    )
    assert after == 17


def test_a_segment_of_words_only() -> None:
    positions, after = with_picture(3, 4, 0, None)
    np.testing.assert_array_equal(positions, [[3, 4, 5, 6]] * 3)
    assert after == 7


@pytest.fixture(scope="module")
def plain() -> PlainQwen:
    return PlainQwen(tiny_checkpoint())


layout = st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))


@settings(max_examples=40, deadline=None)
@given(layouts=st.lists(layout, min_size=1, max_size=6))
def test_segment_by_segment_is_what_transformers_counts_at_once(
    plain: PlainQwen, layouts: list[tuple[int, int, int, int]]
) -> None:
    import torch

    ours, ids, grids = [], [], []
    start = 0
    image = plain.model.config.image_token_id
    for before, rows, columns, after in layouts:
        count = before + rows * columns + after
        positions, start = with_picture(start, count, before, (rows, columns))
        ours.append(positions)
        ids += [WORDS] * before + [image] * (rows * columns) + [WORDS] * after
        grids.append([1, 2 * rows, 2 * columns])
    row = torch.tensor([ids])
    types = (row == image).to(torch.int32)
    theirs, delta = plain.model.model.get_rope_index(
        row, mm_token_type_ids=types, image_grid_thw=torch.tensor(grids)
    )
    np.testing.assert_array_equal(np.concatenate(ours, axis=1), theirs[:, 0].numpy())
    assert start == len(ids) + int(delta)
