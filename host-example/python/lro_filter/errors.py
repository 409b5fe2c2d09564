"""Errors of this package."""

__all__ = ["ComponentError", "LROError", "ListError", "PolicyError", "ReadError", "Rejected", "ResultError", "SettingsError", "StoreError"]


class LROError(Exception):
    """Base of all errors of this package."""


class SettingsError(LROError, ValueError):
    """An invalid setting; names it and the allowed values."""


class ComponentError(LROError):
    """A component that is missing or cannot be loaded as a policy."""


class PolicyError(LROError):
    """A policy call that failed or returned an invalid answer.

    `kind` is one word: `deadline`, `stack`, `trap`, `answer` or `parked`.
    """

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class StoreError(LROError):
    """Files that cannot be written, or do not match what the policy reports."""


class ResultError(LROError):
    """A result that JSON cannot represent: NaN, an infinity, half a surrogate pair, an object without a JSON form."""


class Rejected(LROError):
    """A rejected result; the text is the advice for the model, or the reason why filtering failed."""


class ReadError(LROError):
    """A call or a resource that cannot be answered: a protocol error with this code of JSON-RPC."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class ListError(LROError):
    """A list in pages that would never end."""
