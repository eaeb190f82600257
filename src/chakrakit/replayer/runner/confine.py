"""Walls around a rank's process, so that whatever an operator does in it costs a message and nothing more.

A plan cannot name a file, an address or another process; but an operator of PyTorch that is given what it
does not expect may crash, never end, or do anything at all. So a rank runs where nothing else can be
reached:

- *files* (Landlock): those of Python, PyTorch and the system's libraries can be read, those of the rank's
  own folders written, and no program started;
- *calls* of the kernel (seccomp): no sockets but those that join the ranks, no other process, no other
  mounts or keys;
- *memory* and *time* (resource limits): no more than the machine has, and no step beyond its patience;
- *environment*: only what PyTorch and its libraries read.

Where a kernel has no Landlock or no seccomp that wall is missing; the result says which ones stood.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import signal
import stat
import struct
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS of linux/prctl.h


def _system() -> ctypes.CDLL | None:
    """The C library, whose `syscall` asks the kernel; None where the kernel is another."""
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


# --- environment ----------------------------------------------------------------------------------

_KEPT_TEXT = """ PATH= LD_ PYTHON LANG= LANGUAGE= LC_ TZ= MALLOC_ OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ CUDA NVIDIA_
    CUBLAS CUDNN NCCL_ GLOO_ TORCH PYTORCH_ KINETO_ HIP_ HSA_ ROCR_ ROCM_ MIOPEN_ RCCL_ RANK= WORLD_SIZE=
    LOCAL_RANK= LOCAL_WORLD_SIZE= MASTER_ADDR= MASTER_PORT= CHAKRA_REPLAY_ """
_KEPT = tuple(_KEPT_TEXT.split())
"""How variables begin that Python, PyTorch, its libraries and its launcher read: not LANGCHAIN_API_KEY."""


def bare_environment(variables: Mapping[str, str], home: str) -> dict[str, str]:
    """What a rank gets to see of the environment; its home and its temporary folder are its own."""
    kept = {k: v for k, v in variables.items() if f"{k}=".startswith(_KEPT)}
    return {**kept, "HOME": home, "TMPDIR": home, "USER": "replay", "LOGNAME": "replay"}


# --- files ----------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_REMOVE_FILE, _MAKE_DIR, _MAKE_REGULAR = 1 << 5, 1 << 7, 1 << 8  # linux/landlock.h
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _MAKE_DIR | _MAKE_REGULAR
_RIGHTS = {1: 13, 2: 14}
"""Version of Landlock → how many rights it knows; 15 from the third on. Later ones rule over devices
only."""

_SYSTEM = """
    /usr/lib /usr/lib64 /lib /lib64 /usr/local/lib /usr/share/zoneinfo /etc/ld.so.cache /etc/localtime
    /proc/self /proc/cpuinfo /proc/meminfo /proc/stat /sys/devices /sys/bus /sys/class /dev/urandom
    /etc/hosts /etc/host.conf /etc/nsswitch.conf /etc/resolv.conf /etc/gai.conf
"""
"""What the loader, the threads and the joining of ranks read."""
_DEVICES = """
    /usr /opt /sys /etc/OpenCL /etc/nvidia /etc/cuda /etc/vulkan /etc/ld.so.conf /etc/ld.so.conf.d
    /proc/driver /proc/devices /proc/modules /proc/sys /proc/version /proc/filesystems /proc/cmdline
    /run/nvidia-persistenced /var/lib/nvidia
"""
"""What a GPU's driver and libraries read beside that; where, differs from machine to machine."""
_NODES_TEXT = "nvidia* nvhost* nvmap nvgpu dxg kfd dri infiniband gdrdrv zero"
"""Devices under /dev that they write to."""


def confine_files(folder: Path, own: Iterable[Path], on_device: bool) -> bool:
    """Let this process read libraries and `folder`, and write below `own`; before it has threads."""
    library = _system()
    version = library.syscall(_CREATE_RULESET, None, 0, 1) if library else -1
    if library is None or version < 1:
        return False
    handled = (1 << _RIGHTS.get(version, 15)) - 1
    rules = library.syscall(_CREATE_RULESET, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    if rules < 0:
        return False
    readable = [*_SYSTEM.split(), *_libraries(), str(folder)]
    readable += _DEVICES.split() if on_device else []
    writable = ["/dev/null", *map(str, own)]
    if on_device:
        nodes = [str(node) for name in _NODES_TEXT.split() for node in Path("/dev").glob(name)]
        writable += ["/proc/self", *nodes]  # CUDA names its threads
    for paths, rights in ((readable, _READ), (writable, _WRITE)):
        for path in paths:
            _allow(library, rules, path, rights & handled)
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    confined = library.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(confined)


def _libraries() -> list[str]:
    """Where Python and the packages lie that PyTorch needs."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(n) for n in names] + [f"{sys.base_prefix}/lib"]
    found += [p for p in sys.path if _holds_packages(p)]
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        found.append(str(Path(torch.origin).parents[1]))
    return [*found, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]


def _holds_packages(path: str) -> bool:
    """Whether pip installed into a folder of Python's path, by its name or by the records pip leaves there.

    Other folders on the path are somebody's own files, which a replay has no need of.
    """
    if path.endswith(("site-packages", "dist-packages")):
        return True
    return any(Path(path).glob("*.dist-info")) if path else False


def _allow(library: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Let a file or a folder be used; one that is not there is no loss."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        rights &= _OF_FILES
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
    library.syscall(_ADD_RULE, rules, 1, rule, 0)
    os.close(place)


# --- calls of the kernel --------------------------------------------------------------------------

_FORBIDDEN_TEXT = """
    ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271  kcmp 312 272
    rt_sigqueueinfo 129 138  rt_tgsigqueueinfo 297 240  tkill 200 130  execve 59 221  execveat 322 281
    fork 57 -  vfork 58 -  ioprio_set 251 30  setpriority 141 140  sched_setparam 142 118
    sched_setscheduler 144 119  sched_setattr 314 274  migrate_pages 256 238  shmget 29 194  shmat 30 196
    shmctl 31 195  semget 64 190  semop 65 193  semctl 66 191  semtimedop 220 192  msgget 68 186
    msgsnd 69 189  msgrcv 70 188  msgctl 71 187  mq_open 240 180  mq_unlink 241 181
    chmod 90 -  fchmod 91 52  fchmodat 268 53  chown 92 -  fchown 93 55  lchown 94 -  fchownat 260 54
    utime 132 -  utimes 235 -  futimesat 261 -  utimensat 280 88  setxattr 188 5  lsetxattr 189 6
    fsetxattr 190 7  removexattr 197 14  lremovexattr 198 15  fremovexattr 199 16  inotify_init 253 -
    inotify_init1 294 26  fanotify_init 300 262  open_by_handle_at 304 265
    bpf 321 280  userfaultfd 323 282  perf_event_open 298 241  syslog 103 116  mount 165 40  umount2 166 39
    pivot_root 155 41  chroot 161 51  unshare 272 97  setns 308 268  swapon 167 224  swapoff 168 225
    init_module 175 105  finit_module 313 273  delete_module 176 106  kexec_load 246 104
    kexec_file_load 320 294  reboot 169 142  sethostname 170 161  setdomainname 171 162
    settimeofday 164 170  clock_settime 227 112  adjtimex 159 171  clock_adjtime 305 266  iopl 172 -
    ioperm 173 -  acct 163 89  quotactl 179 60  add_key 248 217  request_key 249 218  keyctl 250 219
"""
"""Name, number on x86-64 and on 64-bit ARM (-: not there) of calls that reach other processes, change what
Landlock does not rule over of files, or concern the machine itself, where root replays."""
_NETWORK_TEXT = """ socket 41 198  connect 42 203  bind 49 200  listen 50 201  accept 43 202  accept4 288 242
    socketpair 53 199 """
_LATER = 424
"""From here on numbers are the same everywhere, of calls since Linux 5.1 (io_uring, pidfd_open, clone3, …)
without which all goes on as on older kernels; on x86-64 those of x32 come after them."""
_OWN_ALONE = ((203, 122), (302, 261), (279, 239))  # sched_setaffinity, prlimit64, move_pages
_BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Variables by which a user has threads bound to processors, which then is allowed, of any thread."""
_FCNTL, _IOCTL, _SIGNALS = (72, 25), (16, 29), ((62, 129), (234, 131))  # these are kill and tgkill
_COMMANDS = [(_FCNTL, 8), (_FCNTL, 15), *((_IOCTL, c) for c in (0x8901, 0x8902, 0x5412, 0x541C))]
"""Commands that let the kernel send signals to others (F_SETOWN, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP) or type
for the user (TIOCSTI, TIOCLINUX)."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Processor → its column above, and how the kernel calls it (AUDIT_ARCH_… of linux/audit.h)."""
_SECCOMP, _CLONE, _CLONE_THREAD = (317, 277), (56, 220), 0x00010000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_PASS, _NOT_PERMITTED, _NOT_THERE = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_ALL_THREADS, _NO_SLOWER = 1, 4
"""Flags: for the threads that are there too; without the processor's mitigations, which cost time."""


def confine_calls(network: bool) -> bool:
    """Let no thread of this process reach another process, or open a connection unless `network`."""
    library, machine = _system(), _MACHINES.get(platform.machine())
    if library is None or machine is None:
        return False
    column, name = machine
    filters = _filter(column, name, os.getpid(), network)
    code = ctypes.create_string_buffer(b"".join(filters), 8 * len(filters))
    program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(code))
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return bool(library.syscall(_SECCOMP[column], 1, _ALL_THREADS | _NO_SLOWER, program) == 0)


def _filter(column: int, machine: int, own: int, network: bool) -> list[bytes]:
    """The kernel's program that looks at every call: number at 0, machine at 4, arguments from 16 on."""
    made = [_code(_LOAD, 4), _code(_EQUAL, machine, 1, 0), _code(_RETURN, _NOT_PERMITTED)]
    made += [_code(_LOAD, 0), _code(_AT_LEAST, _LATER, 0, 1), _code(_RETURN, _NOT_THERE)]
    words = (_FORBIDDEN_TEXT if network else _FORBIDDEN_TEXT + _NETWORK_TEXT).split()
    for number in (int(n) for n in words[1 + column :: 3] if n != "-"):
        made += [_code(_EQUAL, number, 0, 1), _code(_RETURN, _NOT_PERMITTED)]
    for numbers, command in _COMMANDS:
        made += [_code(_EQUAL, numbers[column], 0, 4), _code(_LOAD, 24)]
        made += [_code(_EQUAL, command, 0, 1), _code(_RETURN, _NOT_PERMITTED), _code(_LOAD, 0)]
    made += _only(_CLONE[column], [_code(_ANY_BIT, _CLONE_THREAD, 1, 0)])
    for numbers in _SIGNALS:
        made += _only(numbers[column], [_code(_EQUAL, own, 1, 0)])
    for numbers in _OWN_ALONE[any(name in os.environ for name in _BINDING) :]:
        made += _only(numbers[column], [_code(_EQUAL, 0, 2, 0), _code(_EQUAL, own, 1, 0)])
    return [*made, _code(_RETURN, _PASS)]


def _only(number: int, tests: list[bytes]) -> list[bytes]:
    """Let a call pass only if one of these holds of its first argument."""
    ends = [_code(_RETURN, _NOT_PERMITTED), _code(_RETURN, _PASS)]
    return [_code(_EQUAL, number, 0, 1 + len(tests) + len(ends)), _code(_LOAD, 16), *tests, *ends]


def _code(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


# --- memory and time ------------------------------------------------------------------------------

_SLACK = 4 << 30
"""Addresses that threads and libraries reserve beside tensors."""
_LARGEST_FILE = 4 << 30
"""No recording of one iteration is as large."""


def limit_memory(most: int, on_device: bool) -> bool:
    """No more memory of the host than this beside what is there, no core files, no endless ones.

    A device's driver reserves addresses far beyond what it uses; beside one, only writable memory counts.
    """
    if resource is None or not Path("/proc/self/statm").exists():
        return False
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    pages = Path("/proc/self/statm").read_text().split()
    now = int(pages[5 if on_device else 0]) * os.sysconf("SC_PAGE_SIZE")
    _lower(resource.RLIMIT_DATA if on_device else resource.RLIMIT_AS, now + most + _SLACK)
    return True


def _lower(what: int, most: int) -> None:
    """Set a limit that is not there or higher; what is set already by somebody else stays."""
    if all(r == resource.RLIM_INFINITY or most < r for r in resource.getrlimit(what)):
        resource.setrlimit(what, (most, most))


def limit_time(seconds: float) -> None:
    """End this process (SIGPROF) when it has used so much more processor time; the last call counts.

    Behind that timer stands the kernel's own limit (SIGXCPU), which counts whole seconds.
    """
    if resource is not None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        most = int(time.process_time() + seconds) + 1
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))
