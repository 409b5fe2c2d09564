"""What can go wrong."""

__all__ = ["ComponentError", "LROError", "PolicyError", "Rejected", "ResultError", "SettingsError", "StoreError"]


class LROError(Exception):
    """Base of all errors of this package."""


class SettingsError(LROError, ValueError):
    """A setting that cannot be used; names it and what is allowed."""


class ComponentError(LROError):
    """A component that is not there or cannot be loaded as a policy."""


class PolicyError(LROError):
    """A call of the policy that gave no answer, or one that makes no sense.

    `kind` is one word: `deadline`, `stack`, `trap`, `refused` or `answer`. When the policy itself refused,
    `value` is its `policy-error` of `wit/types.wit` as plain data.
    """

    def __init__(self, kind, message, value=None):
        super().__init__(message)
        self.kind = kind
        self.value = value


class StoreError(LROError):
    """Files that could not be written, or are not as the policy says."""


class ResultError(LROError):
    """A result that is not JSON: NaN, an infinity, half a surrogate pair, an object without a JSON form."""


class Rejected(LROError):
    """The result does not go on; the text is the advice for the model, or says why it could not be filtered."""
