"""The gate for schemas of answers, written from WIRE.md, Schemas of answers. What makes a
schema valid and an instance fit is asked of the `jsonschema` package; the rest is here."""

import itertools
import json
import re
import sys
from urllib.parse import unquote_to_bytes

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

import wire
from wire import No

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LISTS = ("allOf", "anyOf", "oneOf")
SINGLES = ("not", "if", "then", "else")
BELOW = (
    "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
    "contentSchema",
)
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
# 64 levels of a schema are more of the library's own.
sys.setrecursionlimit(20_000)


def written(text):
    """A text; of pieces if it is long, each a text or [text, times]."""
    pieces = text if isinstance(text, list) else [text]
    return "".join(piece if isinstance(piece, str) else piece[0] * piece[1] for piece in pieces)


def members(value):
    return value.items() if isinstance(value, dict) else ()


def every_object(value, root=True):
    """All objects of a value, also where no keyword would look."""
    if isinstance(value, dict):
        yield value, root
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from every_object(one, False)


def form(schema):
    """Its dialect, its references, its patterns."""
    if not isinstance(schema, dict):
        raise No("schema-invalid")
    if schema.get("$schema", DIALECT) != DIALECT:
        raise No("schema-dialect")
    patterns, unevaluated = [], 0
    for found, root in every_object(schema):
        ref = found.get("$ref")
        outside = isinstance(ref, str) and ref != "#" and not ref.startswith("#/")
        dynamic = any(isinstance(found.get(name), str) for name in ("$dynamicRef", "$recursiveRef"))
        named = not root and any(isinstance(found.get(name), str) for name in ("$id", "$schema"))
        if outside or dynamic or named:
            raise No("schema-external-reference")
        patterns += [found["pattern"]] if isinstance(found.get("pattern"), str) else []
        patterns += [name for name, _ in members(found.get("patternProperties"))]
        unevaluated += sum(name in found for name in UNEVALUATED)
    long = any(len(pattern.encode()) > 1024 or length(pattern) > 100_000 for pattern in patterns)
    if len(patterns) > 32 or long:
        raise No("schema-pattern-refused")
    if unevaluated > 8:
        raise No("schema-too-costly")


TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{([^}]*)\}|\(\?<?[=!]|.", re.S)


def length(pattern):
    """How long a pattern is written out: its elements, counted repetitions multiplied."""
    groups, last = [0], 0
    for token in TOKEN.finditer(pattern):
        if token[0] in "*+?|":
            continue
        if token[0].startswith("("):
            groups.append(0)
            last = 0
        elif token[1] is not None:
            times = max(map(int, re.findall("[0-9]+", token[1])), default=1)
            groups[-1] += last * times - last
            last *= times
        else:
            last = groups.pop() if token[0] == ")" and len(groups) > 1 else 1
            groups[-1] += last
    return sum(groups)


def linear(pattern):
    """A pattern that a linear engine takes."""
    try:
        re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern))
    except (re.error, OverflowError):
        return False
    tokens = [token[0] for token in TOKEN.finditer(pattern)]
    return not any(token.startswith("(?") or re.fullmatch(r"\\[1-9k]", token) for token in tokens)


def resolved(root, ref):
    """What `#` or `#/…` names."""
    here = root
    try:
        for segment in unquote_to_bytes(ref[1:]).decode().split("/")[1:]:
            name = segment.replace("~1", "/").replace("~0", "~")
            here = here[int(name) if isinstance(here, list) and re.fullmatch("0|[1-9][0-9]*", name) else name]
    except (KeyError, IndexError, TypeError, ValueError):
        raise No("schema-invalid") from None
    return here


def in_place(root, schema):
    """Subschemas that apply where their owner does."""
    for name, value in schema.items():
        if name in LISTS and isinstance(value, list):
            yield from value
        elif name in SINGLES:
            yield value
        elif name == "dependentSchemas":
            yield from (inner for _, inner in members(value))
    if isinstance(schema.get("$ref"), str):
        yield resolved(root, schema["$ref"])


def below(schema):
    """Subschemas that apply further down, or wait to be referred to."""
    for name, value in schema.items():
        if name in ("properties", "patternProperties", "$defs", "definitions"):
            yield from (inner for _, inner in members(value))
        elif name == "prefixItems" and isinstance(value, list):
            yield from value
        elif name in BELOW:
            yield value


def static_cost(root):
    """Counts the schemas that apply to one place, wherever one begins; all patterns on the way."""
    known, patterns = {}, []

    def place(schema, depth):
        if not isinstance(schema, dict):
            return 1
        if id(schema) in known:
            if known[id(schema)] is None:
                raise No("schema-in-place-cycle")
            return known[id(schema)]
        if depth > 1000:
            raise No("schema-too-costly")
        known[id(schema)], inner = None, 0
        for one in in_place(root, schema):
            inner += place(one, depth + 1)
            if inner > 10_000:
                raise No("schema-too-costly")
        cost = 1 + inner * (2 if any(name in schema for name in UNEVALUATED) else 1)
        if cost > 10_000:
            raise No("schema-too-costly")
        known[id(schema)] = cost
        return cost

    seen, waiting = set(), [root]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, dict) and id(schema) not in seen:
            seen.add(id(schema))
            place(schema, 0)
            waiting += [*in_place(root, schema), *below(schema)]
            patterns += [schema["pattern"]] if "pattern" in schema else []
            patterns += schema.get("patternProperties", {})
    return patterns


class Place:
    """A place of an instance: equal values at two places are two places."""

    def __init__(self, value):
        self.value, self.named, self.listed = value, {}, []
        if isinstance(value, dict):
            self.named = {name: Place(inner) for name, inner in value.items()}
        if isinstance(value, list):
            self.listed = [Place(inner) for inner in value]


def dynamic_cost(root, instance):
    """How much applies to a whole instance; None: too much, or too long to count."""
    known, texts, names, steps = {}, {}, {}, itertools.count(1)

    class Enough(Exception):
        pass

    def step():
        if next(steps) > 200_000:
            raise Enough

    def bounded(cost):
        if cost > 1_000_000:
            raise Enough
        return cost

    def any_text(schema):
        """How many apply to any text, and how long their patterns are."""
        if not isinstance(schema, dict):
            return 1, 0
        if id(schema) not in texts:
            step()
            all_of = [any_text(one) for one in in_place(root, schema)]
            own = length(schema["pattern"]) if "pattern" in schema else 0
            texts[id(schema)] = 1 + sum(one for one, _ in all_of), own + sum(one for _, one in all_of)
        return texts[id(schema)]

    def search(longest, text):
        return longest * len(text.encode()) // 16

    def on_text(schema, text):
        schemas, longest = any_text(schema)
        return bounded(schemas + search(longest, text))

    def of(schema, at):
        if not isinstance(schema, dict):
            return 1
        if isinstance(at.value, str):
            return on_text(schema, at.value)
        key = (id(schema), id(at))
        if key in known:
            return known[key]
        step()
        cost = 1 + sum(of(one, at) for one in in_place(root, schema))
        if isinstance(at.value, dict):
            cost += len(schema.get("dependentRequired", {}))
        patterns = schema.get("patternProperties", {})
        if id(patterns) not in names:
            names[id(patterns)] = sum(map(length, patterns))
        for name, inner in at.named.items():
            applied = [schema["properties"][name]] if name in schema.get("properties", ()) else []
            applied += patterns.values()
            applied += [schema[key] for key in ("additionalProperties", "unevaluatedProperties") if key in schema]
            cost += search(names[id(patterns)], name) + sum(of(one, inner) for one in applied)
            if "propertyNames" in schema:
                cost += on_text(schema["propertyNames"], name)
            bounded(cost)
            step()
        for index, inner in enumerate(at.listed):
            applied = schema.get("prefixItems", [])[index:index + 1]
            applied = applied + [schema[key] for key in ("items", "contains", "unevaluatedItems") if key in schema]
            cost = bounded(cost + sum(of(one, inner) for one in applied))
            step()
        known[key] = bounded(cost)
        return cost

    try:
        return of(root, Place(instance))
    except Enough:
        return None


def read(text, code):
    try:
        wire.read_json(text)
        value = json.loads(text)
    except (wire.NotJson, wire.Twice, ValueError):
        raise No(code) from None
    if any(number in (float("inf"), float("-inf")) for number in numbers(value)):
        raise No(code)
    return value


def numbers(value):
    if isinstance(value, float):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from numbers(one)


def gate(text):
    """The schema that passes, and how long its canonical text is."""
    schema = read(text, "schema-invalid")
    try:
        size = len(wire.canonical(schema).encode())
    except (ValueError, OverflowError):
        raise No("body-malformed") from None
    if size > 65_536:
        raise No("schema-too-large")
    form(schema)
    patterns = static_cost(schema)
    try:
        Draft202012Validator.check_schema(schema, format_checker=None)
    except SchemaError:
        raise No("schema-invalid") from None
    if not all(map(linear, patterns)):
        raise No("schema-pattern-refused")
    return schema, size


def pointer(path, names):
    """A place, without names that only the instance says."""
    told = ""
    for segment in map(str, path):
        known = segment in names or re.fullmatch("[0-9]*", segment)
        told += "/" + (segment.replace("~", "~0").replace("/", "~1") if known else "*")
    return told


def fit(schema, text):
    if len(text.encode()) > 1024 * 1024:
        raise No("response-too-costly")
    instance = read(text, "response-too-costly")
    cost = dynamic_cost(schema, instance)
    if cost is None:
        raise No("response-too-costly")
    validator = Draft202012Validator(schema)
    if validator.is_valid(instance):
        return
    names = {name for found, _ in every_object(schema) for name, _ in members(found.get("properties"))}
    errors = itertools.islice(validator.iter_errors(instance), 16) if cost <= 10_000 else ()
    raise No("response-schema-violation", sorted({pointer(error.absolute_path, names) for error in errors}))


def replay(i):
    schema, size = gate(written(i["schema"]))
    if "instance" not in i:
        return {"bytes": size}
    fit(schema, written(i["instance"]))
    return {}
