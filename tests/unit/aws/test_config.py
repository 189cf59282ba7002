"""A function's environment."""

from __future__ import annotations

import pytest

from crossdock.aws.config import AwsConfig
from crossdock.errors import SettingError

LEAST = {
    "CROSSDOCK_TABLE": "table",
    "CROSSDOCK_EXCHANGE_BUCKET": "exchange",
    "CROSSDOCK_RESULT_BUCKET": "results",
    "CROSSDOCK_CONTROL_QUEUE_URL": "https://sqs/control",
}


def test_the_least_environment_is_enough_and_the_rest_has_defaults() -> None:
    config = AwsConfig.of(LEAST)
    assert (config.table, config.pool, config.producer_functions) == ("table", (), ())


def test_everything_is_read() -> None:
    config = AwsConfig.of(
        {
            **LEAST,
            "CROSSDOCK_POOL_PREFIX": "x-pool-",
            "CROSSDOCK_POOL_SIZE": "2",
            "CROSSDOCK_PRODUCER_FUNCTIONS": "p0, p1,",
            "CROSSDOCK_CONSUMER_FUNCTIONS": "c0",
            "CROSSDOCK_CONCURRENCY": "300",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "3538",
            "CROSSDOCK_SCRATCH": "/mnt/scratch",
        }
    )
    assert config.pool == ("0000", "0001")
    assert config.producer_functions == ("p0", "p1")
    assert (config.concurrency, config.threads) == (300, 2)
    assert str(config.scratch) == "/mnt/scratch"


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(SettingError, match=r"CROSSDOCK_TABLE.*CROSSDOCK_CONTROL_QUEUE_URL"):
        AwsConfig.of({"CROSSDOCK_RESULT_BUCKET": "results"})


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(SettingError, match="CROSSDOCK_POOL_SIZE = 'many'"):
        AwsConfig.of({**LEAST, "CROSSDOCK_POOL_SIZE": "many"})


@pytest.mark.parametrize(("megabytes", "threads"), [(128, 1), (1769, 1), (3008, 2), (10240, 6)])
def test_threads_follow_memory_as_lambda_gives_processors(megabytes: int, threads: int) -> None:
    environment = {**LEAST, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(megabytes)}
    assert AwsConfig.of(environment).threads == threads
