"""ArcticDB's names of exceptions, for ``except`` clauses: what Tessel raises in their place.

Where one of their classes covers what several of ours say, the name stands for a tuple of classes.
"""

from __future__ import annotations

from enum import Enum

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


ErrorCategory = Enum(
    "ErrorCategory", "INTERNAL NORMALIZATION MISSING_DATA SCHEMA STORAGE SORTING USER_INPUT"
)
"""What an error is about."""

ErrorCode = Enum(
    "ErrorCode",
    "E_NO_SUCH_VERSION E_COLUMN_DOESNT_EXIST E_UNSORTED_DATA E_DESCRIPTOR_MISMATCH "
    "E_INVALID_USER_ARGUMENT E_KEY_NOT_FOUND E_RUNTIME_ERROR",
)
"""What an error is, as far as ours are told apart."""

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
