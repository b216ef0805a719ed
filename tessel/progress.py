"""How far an operation is: a sum of its events, and the bar that a terminal shows of it.

Queries, writes and upkeep call :func:`operation`. After a second on a terminal, or in a notebook,
one thread of the process draws a bar of the oldest operation; it imports rich then, and not before.
Elsewhere an operation costs a look at the options. Where a program uses OpenTelemetry, each
operation is a span.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol, TextIO

from tessel import telemetry
from tessel.closing import scoped
from tessel.lazy import dataclass
from tessel.options import current
from tessel.telemetry import fact

__all__ = ["Meter", "Progress", "operation"]

_SHOWN_AFTER_SECONDS = 1.0
_DRAWN_EVERY_SECONDS = 0.5
_SHORT_COLUMNS = 48
"""On a narrower terminal the bar has no room for rows and bytes."""

_READ, _WRITTEN, _WANTED = "segment.read", "segment.write", "write.rows"
_logger = logging.getLogger("tessel")


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of an operation is done: tasks of Spark, units that threads read, files, objects.

    Attributes
    ----------
    done
        Steps that have ended.
    total
        Steps that are known to be wanted; more may come. 0 while nobody knows.
    rows, bytes
        Of what was read, or written, so far.
    """

    done: int = 0
    total: int = 0
    rows: int = 0
    bytes: int = 0


class Meter:
    """Sums the events of one operation; called in the threads in which they happen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[tuple[str, object], Progress] = {}

    def told(self) -> contextlib.AbstractContextManager[object]:
        """Take the events of a block."""
        return telemetry.follow(self, as_it_came=True)

    def __call__(self, event: telemetry.Event) -> None:
        """Take an event."""
        told = event.attributes
        if "total" not in told and event.name not in (_READ, _WRITTEN):
            return
        key = event.name, told.get("of")
        with self._lock:
            before = self._steps.get(key, Progress())
            total, rows, size = (fact(told.get(each, 0)) for each in ("total", "rows", "bytes"))
            if "done" in told:
                made = Progress(told["done"], total, rows, size)
            else:
                made = Progress(before.done + 1, total, before.rows + rows, before.bytes + size)
            self._steps[key] = made

    @property
    def progress(self) -> Progress:
        """How far the operation is.

        What is read is also processed and written: of rows by name of their events, the most count.
        """
        with self._lock:
            steps = list(self._steps.items())
        moved: dict[str, tuple[int, int]] = {}
        for (name, _), each in steps:
            rows, size = moved.get(name, (0, 0))
            moved[name] = rows + each.rows, size + each.bytes
        rows, size = (max((each[at] for each in moved.values()), default=0) for at in (0, 1))
        known = [each for (name, _), each in steps if each.total and name != _WANTED]
        wanted = sum(each.total for (name, _), each in steps if name == _WANTED)
        known += [Progress(moved.get(_WRITTEN, (0, 0))[0], wanted)]
        done = sum(min(each.done, each.total) for each in known)
        return Progress(done, sum(each.total for each in known), rows, size)


def operation(
    verb: str, of: str = "", heard: Meter | telemetry.Recording | None = None
) -> contextlib.AbstractContextManager[None]:
    """Let people see how far a block is, where it lasts and somebody can see it.

    An operation within another is part of that.

    Parameters
    ----------
    verb, of
        What is done, and to what: ``"query"``, ``"trades"``.
    heard
        What sums the events of the block already, or records them; by default they are summed where
        that is of use.
    """
    tracing = sys.modules.get("opentelemetry.trace")  # unless imported, nobody exports spans
    show = None if _inside.get() else _display()
    if tracing is None and show is None:
        return _UNSEEN
    return _seen(tracing, show, verb, of, heard)


_UNSEEN = contextlib.nullcontext()


@contextlib.contextmanager
def _seen(
    tracing: Any,
    show: Callable[[], _Bar] | None,
    verb: str,
    of: str,
    heard: Meter | telemetry.Recording | None,
) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if tracing is not None:
            stack.enter_context(_traced(tracing.get_tracer("tessel"), verb, of, heard))
        if show is not None:
            stack.enter_context(scoped(_inside, True))
            meter = heard if isinstance(heard, Meter) else Meter()
            if meter is not heard:
                stack.enter_context(meter.told())
            from tessel.display.documents import cell_text

            title = f"{verb} {cell_text(of)}".rstrip()
            stack.enter_context(_drawer.watching(_Watched(title, meter, show)))
        yield


_inside: ContextVar[bool] = ContextVar("tessel_operation", default=False)


# --- OpenTelemetry ----------------------------------------------------------------------------


@contextlib.contextmanager
def _traced(tracer: Any, verb: str, of: str, heard: object) -> Iterator[None]:
    """Make a span of a block; where its events are recorded, within it one for each clause."""
    facts = {"tessel.of": of} if of else {}
    with tracer.start_as_current_span(f"tessel.{verb}", attributes=facts):
        try:
            yield
        finally:
            if isinstance(heard, telemetry.Recording):
                _clause_spans(tracer, heard.events)


def _clause_spans(tracer: Any, events: list[telemetry.Event]) -> None:
    by_clause: dict[tuple[str, str], list[telemetry.Event]] = {}
    for event in events:
        if event.duration_ns:
            by_clause.setdefault((event.name, event.attributes.get("clause", "")), []).append(event)
    since_1970_ns = time.time_ns() - time.monotonic_ns()
    for (name, clause), own in by_clause.items():
        busy_ms = sum(event.duration_ns for event in own) / 1e6
        facts: dict[str, str | float] = {"tessel.busy_ms": busy_ms}
        if clause:
            facts["tessel.clause"] = clause
        for each in ("rows", "rows_in", "rows_out", "bytes"):
            if any(each in event.attributes for event in own):
                facts[f"tessel.{each}"] = sum(event.attributes.get(each, 0) for event in own)
        began = min(event.at_ns - event.duration_ns for event in own) + since_1970_ns
        span = tracer.start_span(f"tessel.{name}", start_time=began, attributes=facts)
        span.end(max(event.at_ns for event in own) + since_1970_ns)


# --- bars ---------------------------------------------------------------------------------------


class _Bar(Protocol):
    """What shows the progress of one operation."""

    def draw(self, title: str, progress: Progress, seconds: float) -> None:
        """Show how far it is, after so many seconds."""

    def erase(self) -> None:
        """Leave nothing behind."""


def _display() -> Callable[[], _Bar] | None:
    """Return what makes a bar; None where nobody would see it, or does not want to."""
    if _drawer.is_broken or not current().progress:
        return None
    stream = sys.stderr
    with contextlib.suppress(Exception):  # of streams that programs put in its place
        if stream.isatty():
            return lambda: _TerminalBar(stream)
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return _NotebookBar if hasattr(shell, "kernel") else None


class _TerminalBar:
    """A line of a terminal, drawn by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Line

        console = Console(file=stream)
        columns = [BarColumn(None), TextColumn("{task.fields[left]}")]
        if console.width >= _SHORT_COLUMNS:
            columns.insert(0, TextColumn("{task.description}", markup=False))
            columns.append(TextColumn("{task.fields[moved]}"))
        self._line = Line(
            *columns,
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
        )
        self._task = self._line.add_task("", total=None, left="", moved="")

    def draw(self, title: str, progress: Progress, seconds: float) -> None:
        self._line.update(
            self._task,
            description=title,
            total=progress.total or None,
            completed=progress.done,
            left=_left(progress, seconds),
            moved=_moved(progress),
        )
        if self._line.live.is_started:
            self._line.refresh()
        else:
            self._line.start()

    def erase(self) -> None:
        self._line.stop()


class _NotebookBar:
    """An element in the output of a notebook's cell."""

    def __init__(self) -> None:
        from IPython.display import display

        show: Any = display
        self._handle = show({"text/plain": ""}, raw=True, display_id=True)

    def draw(self, title: str, progress: Progress, seconds: float) -> None:
        from html import escape

        text = f"{title}  {_left(progress, seconds)}  {_moved(progress)}".rstrip()
        known = f' max="{progress.total}" value="{progress.done}"' if progress.total else ""
        shown = f"<progress{known}></progress> {escape(text)}"
        self._handle.update({"text/plain": text, "text/html": shown}, raw=True)

    def erase(self) -> None:
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _left(progress: Progress, seconds: float) -> str:
    """Return how much is done, and how long the rest takes at the rate so far."""
    if not progress.total or not progress.done:
        return f"{_clock(seconds)} so far"
    left = seconds * (progress.total - progress.done) / progress.done
    return f"{100 * progress.done // progress.total:3d} % {_clock(left)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _moved(progress: Progress) -> str:
    found = [f"{_short(progress.rows)} rows"] if progress.rows else []
    found += [f"{_short(progress.bytes)}B"] if progress.bytes else []
    return ", ".join(found)


def _short(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {unit}" if unit else f"{number:.0f} "
        number /= 1000
    return f"{number:.3g} T"


@dataclass(frozen=True, eq=False)
class _Watched:
    """An operation that may get a bar; notebooks know their cell by its context."""

    title: str
    meter: Meter
    show: Callable[[], _Bar]
    began: float = dataclasses.field(default_factory=time.monotonic)
    context: contextvars.Context = dataclasses.field(default_factory=contextvars.copy_context)


class _Drawer:
    """The thread that draws; begun with the first operation that may be seen.

    Attributes
    ----------
    is_broken
        Whether drawing has failed; then there are no more bars.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._running: list[_Watched] = []
        self._thread: threading.Thread | None = None
        self._drawn: tuple[_Watched, _Bar] | None = None

    @contextlib.contextmanager
    def watching(self, watched: _Watched) -> Iterator[None]:
        """Let an operation be seen while the block runs."""
        with self._lock:
            self._running.append(watched)
            self._wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tessel-bar", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:  # behind it nothing is drawn over what the program prints next
                self._running.remove(watched)
                if self._drawn is not None and self._drawn[0] is watched:
                    bar, self._drawn = self._drawn[1], None
                    with contextlib.suppress(Exception):  # the operation has ended all the same
                        watched.context.run(bar.erase)

    def _work(self) -> None:
        try:
            while True:
                self._wanted.wait()
                time.sleep(_DRAWN_EVERY_SECONDS)
                self._draw_oldest()
        except ImportError:  # without rich there are none
            self.is_broken = True
        except Exception:
            _logger.exception("progress cannot be drawn, and will not be any more")
            self.is_broken = True

    def _draw_oldest(self) -> None:
        with self._lock:
            if not self._running:
                self._wanted.clear()
                return
            watched, more, drawn = self._running[0], len(self._running) - 1, self._drawn
        seconds = time.monotonic() - watched.began
        if seconds < _SHOWN_AFTER_SECONDS:
            return
        if drawn is None:  # imports take a while, for which nobody should wait
            drawn = watched, watched.context.run(watched.show)
        title = f"{watched.title} (+{more})" if more else watched.title
        with self._lock:
            if watched in self._running and self._drawn in (None, drawn):
                self._drawn = drawn
                watched.context.run(drawn[1].draw, title, watched.meter.progress, seconds)
                return
        watched.context.run(drawn[1].erase)


_drawer = _Drawer()


def _renew_drawer() -> None:
    """Give a forked child, which has no thread that draws, a lock that nobody holds."""
    global _drawer
    _drawer = _Drawer()


os.register_at_fork(after_in_child=_renew_drawer)
