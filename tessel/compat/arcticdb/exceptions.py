"""ArcticDB's names of exceptions, for ``except`` clauses: what Tessel raises in their place.

Where one of their classes covers what several of ours say, the name stands for a tuple of classes.
"""

from __future__ import annotations

from enum import Enum, auto

from tessel import errors

ArcticException = ArcticNativeException = InternalException = errors.TesselError
ArcticInvalidApiUsageException = MismatchingLibraryOptions = errors.InvalidInputError
ArcticDuplicateSymbolsInBatchException = errors.InvalidInputError
ArcticUnsupportedDataTypeException = errors.InvalidInputError
ArcticDbNotYetImplemented = (errors.InvalidInputError, errors.ExpressionError)
NoSuchVersionException = NoDataFoundException = MissingDataException = errors.NotFoundError
LibraryNotFound = errors.StoreNotFoundError
UserInputException = (errors.InvalidInputError, errors.ExpressionError, errors.NotFoundError)
SchemaException = (errors.InvalidInputError, errors.ExpressionError, errors.NotFoundError)
StreamDescriptorMismatch = NormalizationException = errors.InvalidInputError
SortingException = UnsortedDataException = errors.UnsortedIndexError
StorageException = (errors.StoreError, errors.NotFoundError)
DuplicateKeyException = errors.CommitConflictError
PermissionException = (errors.ReadOnlyStoreError, errors.StoreAccessError)


class ErrorCategory(Enum):
    """What an error is about."""

    INTERNAL = auto()
    NORMALIZATION = auto()
    MISSING_DATA = auto()
    SCHEMA = auto()
    STORAGE = auto()
    SORTING = auto()
    USER_INPUT = auto()


class ErrorCode(Enum):
    """What an error is, as far as ours are told apart."""

    E_NO_SUCH_VERSION = auto()
    E_COLUMN_DOESNT_EXIST = auto()
    E_UNSORTED_DATA = auto()
    E_DESCRIPTOR_MISMATCH = auto()
    E_INVALID_USER_ARGUMENT = auto()
    E_KEY_NOT_FOUND = auto()
    E_RUNTIME_ERROR = auto()


_CODES = [
    (errors.SymbolNotFoundError, ErrorCode.E_NO_SUCH_VERSION, ErrorCategory.MISSING_DATA),
    (errors.VersionNotFoundError, ErrorCode.E_NO_SUCH_VERSION, ErrorCategory.MISSING_DATA),
    (errors.ColumnNotFoundError, ErrorCode.E_COLUMN_DOESNT_EXIST, ErrorCategory.SCHEMA),
    (errors.UnsortedIndexError, ErrorCode.E_UNSORTED_DATA, ErrorCategory.SORTING),
    (errors.SchemaMismatchError, ErrorCode.E_DESCRIPTOR_MISMATCH, ErrorCategory.NORMALIZATION),
    (errors.InvalidInputError, ErrorCode.E_INVALID_USER_ARGUMENT, ErrorCategory.USER_INPUT),
    (errors.ExpressionError, ErrorCode.E_INVALID_USER_ARGUMENT, ErrorCategory.USER_INPUT),
    (errors.StoreError, ErrorCode.E_KEY_NOT_FOUND, ErrorCategory.STORAGE),
    (errors.TesselError, ErrorCode.E_RUNTIME_ERROR, ErrorCategory.INTERNAL),
]


def code_of(error: errors.TesselError) -> tuple[ErrorCode, ErrorCategory]:
    """Return what an error is, and what it is about."""
    return next((code, category) for kind, code, category in _CODES if isinstance(error, kind))
