"""The one exception tree: every error that Tessel raises on purpose.

An error says what was asked, what exists, the nearest match and what to do. It has a stable
``kind`` (part of the public interface, unlike the text), the facts as ``attributes``, and it also
inherits the nearest builtin, so ``except KeyError`` works as well as ``except TesselError``.
Messages are made by the classmethods here and nowhere else, so that one fact is always told in
the same words.

::

    TesselError
    ├── NotFoundError (LookupError)                not-found
    │   ├── ColumnNotFoundError (KeyError)         column-not-found
    │   ├── SymbolNotFoundError (KeyError)         symbol-not-found
    │   ├── VersionNotFoundError                   version-not-found
    │   │   ├── RefNotFoundError                   ref-not-found
    │   │   └── SnapshotExpiredError               snapshot-expired
    │   ├── NameNotFoundError (KeyError)           name-not-found
    │   ├── UnknownVerbError (AttributeError)      verb-not-found
    │   └── StoreNotFoundError (FileNotFoundError) store-not-found
    ├── InvalidInputError (ValueError)             invalid-input
    │   ├── UnknownArgumentError (TypeError)       argument-unknown
    │   ├── ArgumentCountError (TypeError)         argument-count
    │   ├── OptionError                            option-invalid
    │   ├── LimitError                             limit-exceeded
    │   ├── UnicodeTextError (UnicodeError)        text-not-unicode
    │   ├── SymbolNameError                        symbol-name-invalid
    │   ├── RefNameError                           ref-name-invalid
    │   ├── IndexColumnError                       index-invalid
    │   ├── UnsortedIndexError                     index-unsorted
    │   ├── DuplicateColumnError                   column-duplicate
    │   ├── SchemaMismatchError                    schema-mismatch
    │   ├── UnsupportedTypeError (TypeError)       type-unsupported
    │   ├── RowFormatError                         row-format
    │   ├── RowSpaceError                          row-space
    │   └── PlanError                              plan-invalid
    │       ├── PlanFormatError                    plan-format
    │       └── AggregateError (TypeError)         aggregate-invalid
    ├── ExpressionError (ValueError)               expression-invalid
    │   ├── ExpressionSyntaxError                  expression-syntax
    │   ├── ExpressionTypeError (TypeError)        expression-type
    │   ├── ExpressionDepthError (RecursionError)  expression-depth
    │   └── TruthValueError (TypeError)            expression-truth
    ├── IntegerOverflowError (OverflowError)       integer-overflow
    ├── StoreError (OSError)                       store-failed
    │   ├── NotAStoreError                         not-a-store
    │   ├── FormatVersionError                     format-version
    │   ├── CorruptStoreError                      store-corrupt
    │   │   └── CorruptSegmentError                segment-corrupt
    │   ├── ReadOnlyStoreError (PermissionError)   store-read-only
    │   ├── RefExistsError (FileExistsError)       ref-exists
    │   ├── StoreAccessError (PermissionError)     store-access-denied
    │   ├── StoreBusyError                         store-busy
    │   ├── CommitConflictError                    commit-conflict
    │   ├── CommitUnknownError                     commit-unknown
    │   ├── ConditionalWriteError                  store-not-conditional
    │   ├── DiskFullError                          disk-full
    │   ├── LeaseExpiredError                      lease-expired
    │   └── ReferenceChangedError                  reference-changed
    ├── ExecutionError (RuntimeError)              execution-failed
    │   ├── ClauseFailedError                      clause-failed
    │   ├── SchemaPromiseError                     schema-promise
    │   ├── SpillError                             spill-failed
    │   ├── CancelledError                         cancelled
    │   └── JobTimeoutError (TimeoutError)         job-timeout
    ├── MissingDependencyError (ImportError)       dependency-missing
    ├── ForkUnsafeError (RuntimeError)             fork-unsafe
    └── SparkError (RuntimeError)                  spark-failed
        ├── JavaNotFoundError                      java-not-found
        └── StoreNotVisibleError                   store-not-visible
"""

from __future__ import annotations

from tessel.errors import execution, invalid_input, stores
from tessel.errors.execution import *
from tessel.errors.invalid_input import *
from tessel.errors.names import nearest, repeated, shown
from tessel.errors.root import TesselError
from tessel.errors.stores import *

__all__ = ["TesselError", "nearest", "repeated", "shown"]
__all__ += execution.__all__
__all__ += invalid_input.__all__
__all__ += stores.__all__

for _name in __all__:
    # Where they lie is no concern of who sees them in a traceback.
    globals()[_name].__module__ = __name__
