"""How kernels are compiled and cached; the only place that talks to Numba's machinery.

``kernel(signature)`` compiles at import for one explicit signature, without the GIL held during calls, and
keeps the machine code in Numba's on-disk cache, so a later import only loads it. ``helper`` marks functions
that exist only inside kernels: they are compiled together with their caller and cost nothing when that comes
from the cache.

Numba decides whether a cached kernel is stale by the time stamp of the file that defines it. That is wrong
for a family in which kernels call helpers of other files, so the stamp is replaced by a digest of all kernel
sources: any edit to any of them recompiles everything, and a mere change of file times recompiles nothing.

Rules every kernel follows:

* inputs are ``uint8`` arrays over mapped files, possibly read-only; arrays of offsets are ``int64``;
* a kernel checks every length it reads before it uses it; no input bytes can make it touch memory outside its
  arguments. Compiled code has no bounds checks and no exceptions: results are codes;
* all integers are ``int64`` unless they say ``uint64``; Numba turns a mix of the two into a float.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import intrinsic

assert sys.byteorder == "little", "the kernels swap bytes on load and assume a little-endian machine"

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
ArrowOffsets: TypeAlias = npt.NDArray[np.int32]

# Argument and result types for signatures. A writable array is accepted where a read-only one is declared,
# not the other way round.
types: Any = numba.types
# Called with a number inside a kernel, these two convert it.
I64: Callable[..., int] = types.int64
U64: Callable[..., int] = types.uint64
VOID: Any = types.void
READ_BYTES: Any = types.Array(types.uint8, 1, "C", readonly=True)
WRITE_BYTES: Any = types.Array(types.uint8, 1, "C")
READ_INTEGERS: Any = types.Array(I64, 1, "C", readonly=True)
WRITE_INTEGERS: Any = types.Array(I64, 1, "C")
WRITE_ARROW_OFFSETS: Any = types.Array(types.int32, 1, "C")
TABLE: Any = types.Array(I64, 2, "C")


def several(count: int, kind: Any) -> Any:
    """A tuple result."""
    return types.UniTuple(kind, count)


_Function = TypeVar("_Function", bound=Callable[..., object])
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}


def kernel(result: Any, *arguments: Any) -> Callable[[_Function], _Function]:
    """Compile for ``result(*arguments)`` now, or load it from the cache."""

    def decorate(function: _Function) -> _Function:
        for attempt in (_load_or_compile, _compile_again, _compile_uncached):
            try:
                dispatcher = attempt(function)
                dispatcher.compile(result(*arguments))
                break
            except Exception:
                # A cut-off cache file, a full disk, no folder to cache in: none of it is a reason not to run.
                # What is wrong with the function itself comes up in the last attempt too.
                if attempt is _compile_uncached:
                    raise
        dispatcher.disable_compile()
        return cast(_Function, dispatcher)

    return decorate


def helper(function: _Function) -> _Function:
    """A function that only kernels call."""
    return cast(_Function, numba.njit(**_OPTIONS)(function))


def instruction(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """Make ``emit(builder, *values) -> value`` callable from kernels as an operation of its own."""

    def decorate(emit: Callable[..., Any]) -> Callable[..., int]:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            emitted = emit(builder, *values)
            return context.get_dummy_value() if emitted is None else emitted

        # Numba wants as many positional parameters as the operation takes; it looks at the real signature.
        names = ", ".join(f"argument{number}" for number in range(len(arguments)))
        scope: dict[str, Any] = {"answer": (result(*arguments), generate)}
        exec(f"def {emit.__name__}(typing_context, {names}): return answer", scope)
        return cast(Callable[..., int], intrinsic(scope[emit.__name__]))

    return decorate


def _family_digest() -> str | None:
    digest = hashlib.blake2b(digest_size=16)
    package = Path(__file__).parents[2]
    sources = sorted([*package.glob("*/kernels/*.py"), *package.glob("*/*/kernels.py")])
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest() if sources else None


_DIGEST = _family_digest()


def _load_or_compile(function: Callable[..., object]) -> Any:
    dispatcher: Any = numba.njit(cache=True, **_OPTIONS)(function)
    # Private to Numba; where it is called differently, Numba's own stamp (file time and size) stays in force.
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if _DIGEST is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _DIGEST
    return dispatcher


def _compile_again(function: Callable[..., object]) -> Any:
    dispatcher = _load_or_compile(function)
    dispatcher._cache.flush()
    return dispatcher


def _compile_uncached(function: Callable[..., object]) -> Any:
    return numba.njit(**_OPTIONS)(function)
