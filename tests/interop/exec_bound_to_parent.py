"""Become another program that the kernel kills when its parent ends, however that comes.

    python exec_bound_to_parent.py PARENT_PID PROGRAM ARGUMENT ...

A `preexec_fn` would do the same, but is unsafe in a process with threads, which the tests have.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h

parent = int(sys.argv[1])
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
if os.getppid() != parent:  # the parent ended before the kernel knew what to do then
    sys.exit("the parent has ended")
os.execvp(sys.argv[2], sys.argv[2:])
