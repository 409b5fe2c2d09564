"""Validates JSON against JSON Schemas, with a different implementation from the gateway's.

Reads a line `[NAME, SCHEMA, VALUE]` for each case; prints a line for each that is not valid or whose schema is no good.
"""

import functools
import json
import sys

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for


@functools.cache
def validator_of(text):
    """The validator for a schema. Many cases have the same one, and to check it takes longer than to check a value."""
    schema = json.loads(text)
    validator = validator_for(schema, default=Draft202012Validator)
    validator.check_schema(schema)
    return validator(schema)


for line in sys.stdin:
    name, schema, value = json.loads(line)
    try:
        problems = [error.message for error in validator_of(json.dumps(schema)).iter_errors(value)]
    except Exception as error:  # A reference that leads nowhere, for one, is an error of another package.
        problems = [repr(error)]
    for problem in problems[:1]:
        print(f"{name}: {problem[:120]}")
