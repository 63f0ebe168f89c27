"""The file log gives "the n-th file" one meaning for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources.file_log import FileLog, LoggedFile

if TYPE_CHECKING:
    import redis

A, B, C = (LoggedFile(each, 1, 1) for each in "abc")


def test_files_keep_their_number_over_readers(redis_client: redis.Redis) -> None:
    FileLog(redis_client, "log").append([A, B])
    second = FileLog(redis_client, "log")
    second.refresh()
    second.append([C])

    assert list(FileLog(redis_client, "log").files(3)) == [A, B, C]
    assert second.size_of("c") == C.size


def test_of_two_readers_at_once_the_second_drops_its_findings(redis_client: redis.Redis) -> None:
    first, second = FileLog(redis_client, "log"), FileLog(redis_client, "log")
    first.append([A, B])

    second.append([B, C])

    assert list(second.files()) == [A, B]
    second.append([C])
    assert list(second.files()) == [A, B, C]


def test_a_log_is_read_where_more_is_asked_for_than_is_known(redis_client: redis.Redis) -> None:
    """And not for none: an epoch without files would ask twice, behind the close of the last."""
    first = FileLog(redis_client, "log")
    FileLog(redis_client, "log").append([A])

    assert list(first.files(0)) == []
    assert list(first.files(1)) == [A]


def test_a_log_shorter_than_the_offset_says_is_an_error(redis_client: redis.Redis) -> None:
    FileLog(redis_client, "log").append([A])

    with pytest.raises(SourceChanged, match="1 of 2 files"):
        FileLog(redis_client, "log").files(2)
