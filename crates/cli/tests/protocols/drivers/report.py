"""What drivers have in common: they try one feature after another, and print what came of each as a line of JSON."""

import asyncio
import importlib.metadata
import inspect
import json
import sys
import time
import traceback
import urllib.request

#: A pixel.
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)

#: Seconds that one feature may take.
PATIENCE = 90


class Reporter:
    """Tries features in the name of a client. An error of one does not keep the others from being tried."""

    def __init__(self, client, package):
        self.client = client
        self.version = importlib.metadata.version(package)

    def _print(self, feature, **result):
        line = {"client": self.client, "version": self.version, "feature": feature, **result}
        print(json.dumps(line), flush=True)

    async def feature(self, name, act):
        """A feature that works if the function ends without an error."""
        try:
            made = act() if inspect.iscoroutinefunction(act) else asyncio.to_thread(act)
            await asyncio.wait_for(made, PATIENCE)
            self._print(name, works=True)
        except Exception:
            self._print(name, works=False, why=traceback.format_exc())

    def absent(self, name, why):
        """A feature that this client does not have."""
        self._print(name, why=why)


def tell(words):
    """Tells the test something, such as that the first words are there."""
    print(words, file=sys.stderr, flush=True)


def told():
    """Waits until the test says that it goes on."""
    return sys.stdin.readline()


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def until_newest(url, status):
    """Waits until the newest run has this status."""
    while True:
        with urllib.request.urlopen(f"{url}/v1/admin/runs?limit=1") as answer:
            if json.load(answer)["data"][0]["status"] == status:
                return
        time.sleep(0.05)
