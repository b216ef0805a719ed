"""A query that runs in the background, and what its owner can ask of it."""

from __future__ import annotations

import contextvars
import enum
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, Self, TypeVar

from tessel.cancelling import CancelFlag, current_flag
from tessel.errors import CancelledError, ForkUnsafeError, JobTimeoutError
from tessel.errors.arguments import checks_arguments
from tessel.options import options
from tessel.progress import Meter, Progress, operation

__all__ = ["Job", "JobState"]

Result = TypeVar("Result")


class JobState(enum.StrEnum):
    """How far a job is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@checks_arguments
class Job(Generic[Result]):
    """Work in a thread of its own; made by ``submit`` of a lazy table.

    As a context manager it is cancelled, and waited for, where the block ends before it does.

    Parameters
    ----------
    work
        What is run. It sees the options that are in force now.
    name
        What runs, for people.

    Attributes
    ----------
    id
        Names the job, for logs and for threads.
    """

    def __init__(self, work: Callable[[], Result], name: str) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._name = name
        self._process = os.getpid()
        self._flag = CancelFlag(current_flag())
        self._meter = Meter()
        self._future: Future[Result] = Future()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run, work),
            name=f"tessel-job-{self.id}",
            daemon=True,  # a process may end without waiting for it
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self._name}, {self.state.value}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()
        self._thread.join()

    @property
    def state(self) -> JobState:
        """How far it is."""
        if not self.done():
            return JobState.RUNNING
        error = self.error
        if error is None:
            return JobState.SUCCEEDED
        return JobState.CANCELLED if isinstance(error, CancelledError) else JobState.FAILED

    @property
    def error(self) -> BaseException | None:
        """What it failed with; None while it runs, and where it did not fail."""
        return self._future.exception() if self.done() else None

    @property
    def progress(self) -> Progress:
        """How much of it is done, as far as it knows how much there is."""
        return self._meter.progress

    def done(self) -> bool:
        """Return whether it has ended, in whatever way."""
        return self._future.done()

    def cancel(self) -> bool:
        """Ask it to end, without waiting for that; return whether it was still running."""
        self._flag.set()
        return not self.done()

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the answer and return it; Ctrl-C while waiting cancels the job.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits as long as it takes.

        Raises
        ------
        CancelledError
            Where it was cancelled before it had an answer.
        JobTimeoutError
            Where it has not ended in time; it goes on.
        TesselError
            What the query failed with.
        """
        if self._process != os.getpid() and not self.done():
            raise ForkUnsafeError.of_job(self.id)
        try:
            with operation("job", self._name, self._meter):
                if not wait([self._future], timeout).done:
                    raise JobTimeoutError.after(timeout or 0, self.id)
        except KeyboardInterrupt:
            self.cancel()
            raise
        return self._future.result()

    def _run(self, work: Callable[[], Result]) -> None:
        try:
            # Nobody waits for it: bars are for those who do.
            with self._flag.watched(), self._meter.told(), options(progress=False):
                self._future.set_result(work())
        except BaseException as error:  # whatever it is, who waits is told
            self._future.set_exception(error)
