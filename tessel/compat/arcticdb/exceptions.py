"""ArcticDB's names of exceptions, for ``except`` clauses: what Tessel raises in their place.

Where one of their classes covers what several of ours say, the name stands for a tuple of classes.
"""

from __future__ import annotations

from tessel import errors

__all__ = [
    "ArcticDbNotYetImplemented",
    "ArcticDuplicateSymbolsInBatchException",
    "ArcticException",
    "ArcticInvalidApiUsageException",
    "ArcticNativeException",
    "ArcticUnsupportedDataTypeException",
    "DuplicateKeyException",
    "InternalException",
    "LibraryNotFound",
    "MismatchingLibraryOptions",
    "MissingDataException",
    "NoDataFoundException",
    "NoSuchVersionException",
    "NormalizationException",
    "PermissionException",
    "SchemaException",
    "SortingException",
    "StorageException",
    "StreamDescriptorMismatch",
    "UnsortedDataException",
    "UserInputException",
]

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
