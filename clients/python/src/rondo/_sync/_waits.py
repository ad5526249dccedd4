"""What waits: pauses, and functions of the caller."""

from __future__ import annotations

import time
from typing import Any


def pause(seconds: float) -> None:
    time.sleep(seconds)


def resolved(value: Any) -> Any:
    """The value itself. The asynchronous client also takes coroutines."""
    return value
