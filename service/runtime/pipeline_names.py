"""Names of pipelines, and the keys in Redis that bear them."""

from __future__ import annotations

import re

from service.runtime.errors import InvalidPipelineName, PipelineNotFound

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


RECORD_NAME = b"pipeline"
"""What the hash of a pipeline's record is called in its slot."""


def pipeline_key(name: str) -> str:
    """The hash of a pipeline's record."""
    return f"tailrace:{{{name}}}:pipeline"


def deleted_key(name: str) -> str:
    """The hash of the record of a pipeline that is being deleted."""
    return f"tailrace:{{{name}}}:deleted"


def check_name(name: str) -> None:
    """Check that a text may name a pipeline.

    Raises:
        InvalidPipelineName: it may not.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidPipelineName(
            "a pipeline's name is 1 to 63 of a-z, 0-9, - and _, and starts with a letter or digit"
        )


def not_found(name: str) -> PipelineNotFound:
    """The error that no pipeline has this name, which it repeats only if it may be one."""
    if _NAME.fullmatch(name) is None:
        return PipelineNotFound("no pipeline has this name")
    return PipelineNotFound(f'there is no pipeline "{name}"')
