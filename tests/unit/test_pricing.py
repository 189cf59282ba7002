"""The bill, against figures worked out by hand."""

from __future__ import annotations

import pytest

from crossdock.pricing import US_EAST_1, price

SHUFFLE_256 = {"object_put": 256, "object_get": 256 * 256, "queue_send": 256 * 256}


def test_nothing_used_costs_nothing_and_lists_nothing() -> None:
    cost = price({}, 0.0)
    assert (cost.total, cost.items) == (0, ())


def test_a_256_by_256_shuffle_costs_about_six_cents() -> None:
    usage = SHUFFLE_256 | {
        "queue_chunk": 256 * 256 + 256 * 256 // 10,
        "queue_receive": 256 * 256 // 10,
        "queue_delete": 256 * 256 // 10,
    }
    cost = price(usage, 0.0)
    assert cost.of("s3") == pytest.approx(256 * 5e-6 + 65536 * 0.4e-6)
    assert cost.of("sqs") == pytest.approx((65536 + 2 * 6553) * 0.4e-6)
    assert cost.total == pytest.approx(0.059, abs=0.001)


def test_waiting_is_priced_by_the_gigabyte_second() -> None:
    cost = price({"worker_launch": 256}, gb_seconds=256 * 10 * 20)
    assert cost.of("lambda") == pytest.approx(0.6827 + 0.0000512, abs=0.0001)


def test_messages_are_billed_by_their_chunks_and_never_less_than_their_requests() -> None:
    assert price({"queue_send": 1, "queue_receive": 1, "queue_chunk": 32}, 0).total == (
        pytest.approx(32 * US_EAST_1.queue_request)
    )
    assert price({"queue_send": 3, "queue_receive": 2}, 0).total == (
        pytest.approx(5 * US_EAST_1.queue_request)
    )


def test_the_lines_add_up_and_deletes_of_objects_are_free() -> None:
    kinds = (
        "object_put object_get object_list object_delete queue_create queue_drop queue_list"
        " queue_delete state_write state_read unknown"
    )
    usage = dict.fromkeys(kinds.split(), 1_000_000)
    cost = price(usage, 0.0)
    assert cost.total == pytest.approx(5 + 0.4 + 5 + 4 * 0.4 + 0.625 + 0.125)
    assert all(item.dollars == item.amount * item.unit_price for item in cost.items)
    assert (cost.region, cost.as_of) == (US_EAST_1.region, US_EAST_1.as_of)
