"""Where the system limits addresses (`ulimit -v`), a command runs in a process that may die.

Python raises an error when it gets no memory. The dynamic loader, the C++ runtime and some BLAS end
the process instead, now and then after everything was said and done, in words of their own or in
none. So a second process waits for the first, and knows nothing but how it ended.
"""

import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Never

from recbench.errors import RecbenchError

PR_SET_PDEATHSIG = 1
LOADER_GAVE_UP = 127
"""The exit code of the dynamic loader where it finds no memory; none of ours."""
GAVE_UP = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL)
"""Signals that libraries end a process by, and nobody from outside."""
HEARD = (signal.SIGINT, signal.SIGCHLD)
"""Signals that whoever waits takes up one by one."""


def outlive() -> None:
    """Go on in another process if addresses are limited; this one waits, and ends as that did.

    An error where a library ended it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or sys.platform != "linux":
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored nobody hears of an end
    here, before = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with(here)
        return
    code = os.waitstatus_to_exitcode(_status_of(child))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to be interrupted
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code == LOADER_GAVE_UP or -code in GAVE_UP:
        raise RecbenchError(
            "there is not enough memory: a library ended the program, which may have "
            f"{limit / 1e6:,.0f} MB of addresses (`ulimit -v`)"
        )
    _end_like(code)


def _status_of(child: int) -> int:
    """How a process ended, once it has; what is meant to interrupt this one interrupts that."""
    while True:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo == signal.SIGINT and heard.si_code <= 0:  # a terminal's goes to both
            os.kill(child, signal.SIGINT)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status


def _die_with(parent: int) -> None:
    """Have this process terminated when another one ends."""
    import ctypes  # which most processes do not need

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), signal.SIGTERM)


def _end_like(code: int) -> Never:
    """Exit, or die by the same signal; what is left to be written is the other's."""
    if code < 0:
        with suppress(OSError):  # some cannot be anything else
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
