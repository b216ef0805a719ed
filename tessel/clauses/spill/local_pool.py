"""The local pool: tasks on threads, results in order, a bounded number of bytes alive.

A task is admitted when fewer than twice the workers are under way *and* its bytes fit the budget
(of a query that is short of memory, no more than one beyond the workers);
the next one in order is always admitted, so that a task larger than the budget runs alone instead
of never. Results that wait for their turn count as alive. The account is that of the whole query:
the stages share it with each other and with what clauses and barriers hold.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tessel.cancelling import CancelFlag, check_cancelled, current_flag
from tessel.clauses.spill.workspace import Account
from tessel.closing import Closing
from tessel.errors import ForkUnsafeError
from tessel.forking import after_fork
from tessel.lazy import dataclass
from tessel.options import Options

Result = TypeVar("Result")
_FAR_TASKS = 32
"""Units whose requests overlap: each waits for two answers or three, one after the other."""


@dataclass(frozen=True)
class Task(Generic[Result]):
    """Something to do, and an estimate of the bytes it keeps alive.

    One that accounts for what it holds has none, and says that it ``is_large``.
    """

    run: Callable[[], Result]
    bytes: int
    is_large: bool = False


class LocalPool(Closing):
    """Threads of one query; use as a context manager.

    Leaving it, also by an error or Ctrl-C, cancels what has not started, tells what has by a flag,
    and waits until that has seen it.

    Parameters
    ----------
    account
        What the query keeps alive; by default one of the pool's own.
    workers
        Tasks that run at a time; by default those of the options.
    waits
        Whether tasks mostly wait: then none is little, and runs in the calling thread.
    """

    def __init__(
        self,
        options: Options,
        account: Account | None = None,
        workers: int | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self._options = options
        self._account = account or Account(options.live_bytes)
        self._at_once = workers or options.workers
        self._inline_bytes = 0 if waits else options.inline_bytes
        self._threads: ThreadPoolExecutor | None = None
        self._begun: list[threading.Thread] = []
        self._far: LocalPool | None = None
        self._flag = CancelFlag(current_flag())
        self._forked = False
        # Of a query that is under way, a forked child has the pool without its threads.
        after_fork(self, LocalPool._orphan)

    def close(self) -> None:
        """Stop all tasks, and wait for their threads."""
        self._flag.set()
        if self._far is not None:
            self._far.close()
        if self._threads is not None and not self._forked:
            self._threads.shutdown(wait=True, cancel_futures=True)
            # Ctrl-C while a thread was being started leaves one that the executor does not know.
            for thread in self._begun:
                thread.join()

    @property
    def workers(self) -> int:
        """Tasks that run at a time."""
        return self._at_once

    def far(self) -> LocalPool:
        """Return the threads for tasks that mostly wait for a store that is far.

        So many run at a time that requests overlap, as far as the byte budget lets them. With one
        worker it is this pool: then nothing runs beside anything else.
        """
        if self._options.workers == 1:
            return self
        if self._far is None:
            workers = max(_FAR_TASKS, self._options.workers)
            self._far = LocalPool(self._options, self._account, workers, waits=True)
        return self._far

    def map(self, tasks: Iterable[Task[Result]]) -> Iterator[Result]:
        """Run tasks and give their results in the order of the tasks.

        The first task, in order, that fails ends the rest with its error; where the iterable of
        tasks itself fails, which is the stage before, the tasks that it gave come first. Closing
        the iterator cancels what has not started.
        The first tasks, of fewer bytes together than ``inline_bytes``, run in the calling thread;
        so does one behind which there is no other, unless these bytes are 0.
        """
        source = _failing_last(tasks)
        # A task that waited for threads, being on one of them, might wait for itself.
        alone = self._options.workers == 1 or threading.current_thread() in self._begun
        left = self._inline_bytes
        for task in source:
            left -= task.bytes
            if not alone and (left <= 0 or task.is_large):
                begun = [task, *itertools.islice(source, 1)]
                if len(begun) > 1 or not self._options.inline_bytes:
                    yield from self._on_threads(itertools.chain(begun, source))
                    return
            check_cancelled()
            with self._account.taking(task.bytes):
                found = task.run()
            yield found

    def _on_threads(self, source: Iterator[Task[Result]]) -> Iterator[Result]:
        pending: deque[tuple[Future[Result], int]] = deque()
        account = self._account
        held = next(source, None)
        try:
            while held is not None or pending:
                # Under way, or done and waiting; where memory is short, one beyond the workers.
                most = self._at_once + (1 if account.is_tight else self._at_once)
                while held is not None and len(pending) < most:
                    if pending and account.alive + held.bytes > account.admitted_limit:
                        break
                    pending.append((self._submit(held), held.bytes))
                    account.add(held.bytes)
                    held = next(source, None)
                future, size = pending.popleft()
                self._check_threads()
                result = future.result()
                account.add(-size)
                yield result
        finally:
            for future, size in pending:
                future.cancel()
                account.add(-size)

    def _check_threads(self) -> None:
        """Refuse to wait for threads that stayed behind in the parent process."""
        if self._forked:
            raise ForkUnsafeError(
                "this query was begun by the parent process, whose threads are not in a forked one",
                hint="run the query anew in the child, or fork before it begins",
            )

    def _orphan(self) -> None:
        self._forked = True

    def _submit(self, task: Task[Result]) -> Future[Result]:
        self._check_threads()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self._at_once,
                thread_name_prefix="tessel-pool",
                initializer=lambda: self._begun.append(threading.current_thread()),
            )
        return self._threads.submit(contextvars.copy_context().run, self._run, task)

    def _run(self, task: Task[Result]) -> Result:
        try:
            with self._flag.watched():
                check_cancelled()
                return task.run()
        finally:
            if self._account.is_tight and self._account.passes(task.bytes):
                from tessel.clauses.spill.file import give_back

                give_back()  # allocators keep what is free for each thread by itself


def _failing_last(tasks: Iterable[Task[Result]]) -> Iterator[Task[Result]]:
    """Give the failure of an iterable as one more task.

    Tasks are taken ahead of their turn; an error met there must not overtake those of the tasks
    before, or which error a query ends with would depend on the number of workers.
    """
    try:
        yield from tasks
    except Exception as error:
        failure = error

        def fail() -> Result:
            raise failure

        yield Task(fail, 0)
