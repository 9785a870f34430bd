"""What goes wrong while a model is fetched, as coded errors.

The client's own classes are told by their names: importing them costs most of a second.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.engines.hub import HubModel
from pipeline.errors import Code, EngineError

OTHER_HUB = "name another hub with --endpoint, or update Turnaround"
ROOM = "free some space, or choose another folder with --dir or TURNAROUND_MODELS"


@contextmanager
def in_words(model: HubModel, models: Path) -> Iterator[None]:
    """What the client or the disk raises, as an EngineError."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        # Of several files that failed, the one that says most about what to do.
        causes = [_coded(cause, model, models) for cause in _causes(error)]
        raise min(causes, key=lambda e: _WORST.index(e.code) if e.code in _WORST else len(_WORST)) from error


_WORST = (Code.DISK_FULL, Code.WEIGHTS_CORRUPT, Code.WEIGHTS_MISSING, Code.KEY_MISSING, Code.UNKNOWN_MODEL)


def _causes(error: BaseException) -> list[BaseException]:
    failed: dict[str, BaseException] = getattr(error, "failed_files", {})
    return list(failed.values()) or [error]


def _coded(error: BaseException, model: HubModel, models: Path) -> EngineError:
    again = f"python -m pipeline download {model.name}"
    kinds = {kind.__name__ for kind in type(error).__mro__}  # the client's errors, without importing the client
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(Code.DISK_FULL, f"the disk of {models} filled up while {model.name} arrived", ROOM)
    if kinds & {"NotExistError"}:
        return EngineError(Code.UNKNOWN_MODEL, f"the hub has no {model.id} at {model.revision}", OTHER_HUB)
    if kinds & {"AuthenticationError", "PermissionDeniedError"}:
        what = f"the hub wants a login for {model.id}"
        return EngineError(Code.KEY_MISSING, what, "set MODELSCOPE_API_TOKEN to a token of your account there")
    if kinds & {"FileIntegrityError"}:
        what = f"what the hub sends of {model.name} is not what it lists: {error}"
        return EngineError(Code.WEIGHTS_CORRUPT, what, f"{again} (later, or from another hub with --endpoint)")
    if kinds & {"HubError", "RequestException", "ConnectionError", "TimeoutError"}:
        what = f"the hub stopped answering or answers strangely: {type(error).__name__}: {error}"
        return EngineError(Code.NETWORK, what, f"{again} (it goes on where it stopped)")
    if isinstance(error, OSError):
        what = f"{error.filename or models} cannot be written ({error.strerror or error})"
        return EngineError(Code.WEIGHTS_MISSING, what, "make it writable, or choose another folder with --dir")
    return EngineError(Code.NETWORK, f"the hub answers strangely: {type(error).__name__}: {error}", again)
