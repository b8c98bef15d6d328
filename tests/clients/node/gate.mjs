// The gate for schemas of answers, written from WIRE.md, Schemas of answers. What makes a
// schema valid and an instance fit is asked of `ajv`; the rest is here.

import { createRequire } from "node:module";

import { No, NotJson, Num, Twice, canonical, readJson } from "./wire.mjs";

// setup.sh installs it there, wherever this file is run from.
const require = createRequire(new URL("../../.clients/node/", import.meta.url));
const { Ajv2020 } = require("ajv/dist/2020.js");

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const BELOW = [
  "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
  "contentSchema",
];
const UNEVALUATED = ["unevaluatedItems", "unevaluatedProperties"];

/** A text; of pieces if it is long, each a text or [text, times]. */
const written = (text) =>
  [text].flat(1).map((piece) => (typeof piece === "string" ? piece : piece[0].repeat(piece[1]))).join("");

const isText = (value) => typeof value === "string";
const valuesOf = (value) => (value instanceof Map ? [...value.values()] : Array.isArray(value) ? value : []);

/** All objects of a value, also where no keyword would look. */
function* everyObject(value, root = true) {
  if (value instanceof Map) yield [value, root];
  for (const inner of valuesOf(value)) yield* everyObject(inner, false);
}

/** Its dialect, its references, its patterns. */
function form(schema) {
  if (!(schema instanceof Map)) throw new No("schema-invalid");
  if (schema.has("$schema") && schema.get("$schema") !== DIALECT) throw new No("schema-dialect");
  const patterns = [];
  let unevaluated = 0;
  for (const [found, root] of everyObject(schema)) {
    const ref = found.get("$ref");
    const outside = isText(ref) && ref !== "#" && !ref.startsWith("#/");
    const dynamic = ["$dynamicRef", "$recursiveRef"].some((name) => isText(found.get(name)));
    const named = !root && ["$id", "$schema"].some((name) => isText(found.get(name)));
    if (outside || dynamic || named) throw new No("schema-external-reference");
    if (isText(found.get("pattern"))) patterns.push(found.get("pattern"));
    if (found.get("patternProperties") instanceof Map) patterns.push(...found.get("patternProperties").keys());
    unevaluated += UNEVALUATED.filter((name) => found.has(name)).length;
  }
  const long = (pattern) => Buffer.byteLength(pattern) > 1024 || length(pattern) > 100_000;
  if (patterns.length > 32 || patterns.some(long)) throw new No("schema-pattern-refused");
  if (unevaluated > 8) throw new No("schema-too-costly");
}

const TOKEN = /\\.|\[(?:\\.|[^\]\\])*\]|\{([^}]*)\}|\(\?<?[=!]|./gsu;

/** How long a pattern is written out: its elements, counted repetitions multiplied. */
function length(pattern) {
  const groups = [0];
  let last = 0;
  const add = (more) => (groups[groups.length - 1] += more);
  for (const [text, within] of pattern.matchAll(TOKEN)) {
    if ("*+?|".includes(text)) continue;
    if (text.startsWith("(")) {
      groups.push(0);
      last = 0;
    } else if (within !== undefined) {
      const numbers = within.match(/[0-9]+/g)?.map(Number) ?? [1];
      const all = last * Math.max(...numbers);
      add(all - last);
      last = all;
    } else {
      last = text === ")" && groups.length > 1 ? groups.pop() : 1;
      add(last);
    }
  }
  return groups.reduce((sum, group) => sum + group);
}

/** A pattern that a linear engine takes. */
function linear(pattern) {
  try {
    new RegExp(pattern, "u");
  } catch {
    return false;
  }
  return ![...pattern.matchAll(TOKEN)].some(([text]) => text.startsWith("(?") || /^\\[1-9k]$/.test(text));
}

/** What `#` or `#/…` names. */
function resolved(root, ref) {
  let here = root;
  try {
    for (const segment of decodeURIComponent(ref.slice(1)).split("/").slice(1)) {
      const name = segment.replaceAll("~1", "/").replaceAll("~0", "~");
      if (Array.isArray(here)) here = /^(0|[1-9][0-9]*)$/.test(name) ? here[Number(name)] : undefined;
      else here = here instanceof Map ? here.get(name) : undefined;
    }
  } catch {
    here = undefined;
  }
  if (here === undefined) throw new No("schema-invalid");
  return here;
}

/** Subschemas that apply where their owner does. */
function inPlace(root, schema) {
  const all = [];
  for (const [name, value] of schema) {
    if (["allOf", "anyOf", "oneOf"].includes(name) && Array.isArray(value)) all.push(...value);
    if (["not", "if", "then", "else"].includes(name)) all.push(value);
    if (name === "dependentSchemas" && value instanceof Map) all.push(...value.values());
  }
  if (isText(schema.get("$ref"))) all.push(resolved(root, schema.get("$ref")));
  return all;
}

/** Subschemas that apply further down, or wait to be referred to. */
function below(schema) {
  const all = [];
  for (const [name, value] of schema) {
    const named = ["properties", "patternProperties", "$defs", "definitions"].includes(name);
    if ((named && value instanceof Map) || (name === "prefixItems" && Array.isArray(value))) all.push(...valuesOf(value));
    if (BELOW.includes(name)) all.push(value);
  }
  return all;
}

/** Counts the schemas that apply to one place, wherever one begins; all patterns on the way. */
function staticCost(root) {
  const known = new Map();
  const place = (schema, depth) => {
    if (!(schema instanceof Map)) return 1;
    if (known.get(schema) === null) throw new No("schema-in-place-cycle");
    if (known.has(schema)) return known.get(schema);
    if (depth > 1000) throw new No("schema-too-costly");
    known.set(schema, null);
    let inner = 0;
    for (const one of inPlace(root, schema)) {
      inner += place(one, depth + 1);
      if (inner > 10_000) throw new No("schema-too-costly");
    }
    const cost = 1 + inner * (UNEVALUATED.some((name) => schema.has(name)) ? 2 : 1);
    if (cost > 10_000) throw new No("schema-too-costly");
    known.set(schema, cost);
    return cost;
  };
  const seen = new Set();
  const patterns = [];
  for (const waiting = [root]; waiting.length; ) {
    const schema = waiting.pop();
    if (!(schema instanceof Map) || seen.has(schema)) continue;
    seen.add(schema);
    place(schema, 0);
    waiting.push(...inPlace(root, schema), ...below(schema));
    if (schema.has("pattern")) patterns.push(schema.get("pattern"));
    if (schema.get("patternProperties") instanceof Map) patterns.push(...schema.get("patternProperties").keys());
  }
  return patterns;
}

/** Places of an instance: equal values at two places are two places. */
function placed(value) {
  if (typeof value === "string") return { text: value };
  if (Array.isArray(value)) return { listed: value.map(placed) };
  if (value instanceof Map) return { named: new Map([...value].map(([name, inner]) => [name, placed(inner)])) };
  return {};
}

/** How much applies to a whole instance; undefined: too much, or too long to count. */
function dynamicCost(root, instance) {
  const known = new Map();
  const enough = new Error();
  let steps = 0;
  const step = () => {
    steps += 1;
    if (steps > 200_000) throw enough;
  };
  const bounded = (cost) => {
    if (cost > 1_000_000) throw enough;
    return cost;
  };
  const texts = new Map();
  const names = new Map();
  /** How many apply to any text, and how long their patterns are. */
  const anyText = (schema) => {
    if (!(schema instanceof Map)) return [1, 0];
    if (texts.has(schema)) return texts.get(schema);
    step();
    const all = [1, schema.has("pattern") ? length(schema.get("pattern")) : 0];
    for (const [schemas, long] of inPlace(root, schema).map(anyText)) {
      all[0] += schemas;
      all[1] += long;
    }
    texts.set(schema, all);
    return all;
  };
  const search = (long, text) => Math.floor((long * Buffer.byteLength(text)) / 16);
  const onText = (schema, text) => {
    const [schemas, long] = anyText(schema);
    return bounded(schemas + search(long, text));
  };
  const of = (schema, at) => {
    if (!(schema instanceof Map)) return 1;
    if (at.text !== undefined) return onText(schema, at.text);
    if (!known.has(schema)) known.set(schema, new Map());
    const costs = known.get(schema);
    if (costs.has(at)) return costs.get(at);
    step();
    let cost = 1;
    const add = (more) => (cost = bounded(cost + more));
    const apply = (schemas, inner) => schemas.forEach((one) => add(of(one, inner)));
    const under = (names) => names.filter((name) => schema.has(name)).map((name) => schema.get(name));
    apply(inPlace(root, schema), at);
    if (at.named) add(schema.get("dependentRequired")?.size ?? 0);
    const patterns = schema.get("patternProperties");
    if (patterns && !names.has(patterns)) names.set(patterns, [...patterns.keys()].reduce((sum, one) => sum + length(one), 0));
    for (const [name, inner] of at.named ?? []) {
      const own = schema.get("properties")?.get(name);
      apply(own === undefined ? [] : [own], inner);
      if (patterns) add(search(names.get(patterns), name));
      apply(valuesOf(patterns), inner);
      apply(under(["additionalProperties", "unevaluatedProperties"]), inner);
      if (schema.has("propertyNames")) add(onText(schema.get("propertyNames"), name));
      step();
    }
    for (const [index, inner] of (at.listed ?? []).entries()) {
      apply((schema.get("prefixItems") ?? []).slice(index, index + 1), inner);
      apply(under(["items", "contains", "unevaluatedItems"]), inner);
      step();
    }
    costs.set(at, cost);
    return cost;
  };
  try {
    return of(root, placed(instance));
  } catch (error) {
    if (error !== enough) throw error;
    return undefined;
  }
}

function* numbers(value) {
  if (value instanceof Num) yield Number(value.raw);
  for (const inner of valuesOf(value)) yield* numbers(inner);
}

function read(text, code) {
  try {
    const value = readJson(text);
    if ([...numbers(value)].every(Number.isFinite)) return value;
  } catch (error) {
    if (!(error instanceof NotJson || error instanceof Twice)) throw error;
  }
  throw new No(code);
}

const ajv = () => new Ajv2020({ strict: false, validateFormats: false, allErrors: true, logger: false });

/** The schema that passes, and how long its canonical text is. */
function gate(text) {
  const schema = read(text, "schema-invalid");
  const bytes = Buffer.byteLength(canonical(schema));
  if (bytes > 65_536) throw new No("schema-too-large");
  form(schema);
  const patterns = staticCost(schema);
  if (!ajv().validateSchema(JSON.parse(text))) throw new No("schema-invalid");
  if (!patterns.every(linear)) throw new No("schema-pattern-refused");
  return { schema, bytes };
}

/** A place, without names that only the instance says. */
function pointer(path, names) {
  const told = (segment) => {
    const name = segment.replaceAll("~1", "/").replaceAll("~0", "~");
    return names.has(name) || /^[0-9]*$/.test(segment) ? segment : "*";
  };
  return path.split("/").map((segment, at) => (at ? told(segment) : segment)).join("/");
}

function fit(schema, schemaText, text) {
  if (Buffer.byteLength(text) > 1024 * 1024) throw new No("response-too-costly");
  const cost = dynamicCost(schema, read(text, "response-too-costly"));
  if (cost === undefined) throw new No("response-too-costly");
  const validate = ajv().compile(JSON.parse(schemaText));
  if (validate(JSON.parse(text))) return;
  const names = new Set();
  for (const [found] of everyObject(schema)) {
    if (found.get("properties") instanceof Map) for (const name of found.get("properties").keys()) names.add(name);
  }
  const errors = cost > 10_000 ? [] : validate.errors.slice(0, 16);
  const places = new Set(errors.map((error) => pointer(error.instancePath, names)));
  throw new No("response-schema-violation", [...places].sort());
}

export function replay(i) {
  const text = written(i.schema);
  const { schema, bytes } = gate(text);
  if (i.instance === undefined) return { bytes };
  fit(schema, text, written(i.instance));
  return {};
}
