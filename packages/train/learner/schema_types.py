"""Which types the schema of a tool's parameter accepts, as src/tinker/schema-types.ts has it."""
import urllib.parse

MOST_DEPTH = 32  # deeper references refer to themselves
KINDS = ("$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf")


def of_parameter(root, name, schema=None, depth=0):
    """The schema of a parameter; None when there is none."""
    schema = root if depth == 0 else schema
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return None
    properties, other = schema.get("properties"), schema.get("additionalProperties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    parts = [_referred(schema["$ref"], root)] if isinstance(schema.get("$ref"), str) else []
    for part in [*parts, *(part for key in ("allOf", "anyOf", "oneOf") for part in _list(schema.get(key)))]:
        found = of_parameter(root, name, part, depth + 1)
        if found is not None:
            return found
    return other if isinstance(other, dict) else None


def is_text(written, value, schema, root):
    """Whether what a model wrote is a text; otherwise it is the JSON of another value. Where the types accept both, JSON counts."""
    if not isinstance(schema, dict) or not any(kind in schema for kind in KINDS):
        return False
    for exactly in (True, False):
        if not isinstance(value, str) and _accepts(schema, value, root, exactly):
            return False
        if _accepts(schema, written, root, exactly):
            return True
    return False


def _accepts(schema, value, root, exactly, depth=0):
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return True

    def accept(part):
        return _accepts(part, value, root, exactly, depth + 1)

    if value is None and schema.get("nullable") is True:
        return True
    types = schema.get("type")
    if types is not None and not any(_is_of(value, one) for one in (types if isinstance(types, list) else [types])):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and not any(_name(one) == _name(value) and (one == value or not exactly) for one in values):
        return False
    for choice in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(choice, list) and not any(map(accept, choice)):
            return False
    if not all(map(accept, _list(schema.get("allOf")))):
        return False
    return not isinstance(schema.get("$ref"), str) or accept(_referred(schema["$ref"], root))


def _is_of(value, name):
    if name == "integer":
        return _name(value) == "number" and (isinstance(value, int) or value.is_integer())
    return _name(value) == name


def _name(value):
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    names = ((str, "string"), ((int, float), "number"), (list, "array"), (dict, "object"))
    return next(name for kind, name in names if isinstance(value, kind))


def _referred(reference, root):
    """What a reference such as #/$defs/City refers to; None for one that leads nowhere, or out of the schema."""
    if not reference.startswith("#"):
        return None
    for step in reference[1:].split("/")[1:]:
        key = urllib.parse.unquote(step.replace("~1", "/").replace("~0", "~"))
        if isinstance(root, list) and key.isdecimal() and int(key) < len(root):
            root = root[int(key)]
        else:
            root = root.get(key) if isinstance(root, dict) else None
    return root


def _list(value):
    return value if isinstance(value, list) else []
