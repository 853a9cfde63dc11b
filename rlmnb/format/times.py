"""Times as records keep them: ISO 8601 in UTC, without importing `datetime`."""

import time


def now() -> str:
    """Return this moment, to the microsecond."""
    return from_seconds(time.time())


def from_seconds(seconds: float) -> str:
    """Write seconds since 1970 as ISO 8601 in UTC."""
    micros = int(seconds * 1_000_000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000))
    return f"{whole}.{micros % 1_000_000:06d}Z"
