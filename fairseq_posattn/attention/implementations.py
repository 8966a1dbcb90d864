"""Which implementation serves a call: chosen by ``auto``, or named and then never replaced."""

from collections.abc import Mapping


def select_implementation(requested: str, obstacles: Mapping[str, str | None]) -> str:
    """The name of the implementation that serves a call.

    Args:
        requested: ``"auto"`` or the name of an implementation.
        obstacles: every implementation of the function, best first; its value says why it cannot
            serve this call, or is None where it can.

    Raises:
        ValueError: the name is unknown, or the named implementation cannot serve this call.
    """
    if requested == "auto":
        return next(name for name, obstacle in obstacles.items() if obstacle is None)
    if requested not in obstacles:
        known = ", ".join(["auto", *obstacles])
        raise ValueError(f"no implementation {requested!r} here; choose one of: {known}")
    if obstacles[requested] is not None:
        able = ", ".join(["auto", *(name for name in obstacles if obstacles[name] is None)])
        raise ValueError(f"impl={requested!r} {obstacles[requested]}; choose one of: {able}")
    return requested
