"""What waits: pauses, and functions of the caller that may be coroutines."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def resolved(value: Any) -> Any:
    """A value, or what comes out of it if it can be awaited."""
    return await value if inspect.isawaitable(value) else value
