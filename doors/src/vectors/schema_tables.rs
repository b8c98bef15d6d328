//! Schemas and instances, and what they come to.

type Good = (&'static str, &'static str, &'static str);
type Refused = (&'static str, &'static str, &'static str, &'static str);

/// Name, why, a schema without white space that passes.
pub(super) const GOOD: &[Good] = &[
    ("plain", "an object is a schema", "{}"),
    (
        "stock",
        "a schema as they are written",
        r#"{"type":"object","properties":{"quantity":{"type":"integer","minimum":0}},"required":["quantity"],"additionalProperties":false}"#,
    ),
    (
        "order",
        "references, lists, formats and a pattern",
        r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Order","type":"object","properties":{"id":{"type":"string","format":"uuid"},"placed":{"type":"string","format":"date-time"},"lines":{"type":"array","minItems":1,"maxItems":100,"items":{"$ref":"#/$defs/line"}},"ship_to":{"$ref":"#/$defs/address"}},"required":["id","lines"],"$defs":{"line":{"type":"object","properties":{"sku":{"type":"string","pattern":"^[A-Z]{2}[0-9]{4}$"},"count":{"type":"integer","exclusiveMinimum":0}},"required":["sku","count"]},"address":{"type":"object","properties":{"street":{"type":"string","maxLength":200},"city":{"type":"string"},"country":{"enum":["AE","DE","NL"]}},"required":["city"]}}}"##,
    ),
    (
        "form",
        "alternatives and conditions",
        r#"{"type":"object","oneOf":[{"properties":{"kind":{"const":"yes"}},"required":["kind"]},{"properties":{"kind":{"const":"no"},"why":{"type":"string","minLength":1}},"required":["kind","why"]}],"if":{"required":["phone"]},"then":{"properties":{"phone":{"pattern":"^\\+?[0-9 ]+$"}}},"dependentRequired":{"phone":["kind"]}}"#,
    ),
    (
        "tree",
        "itself again, one level down",
        r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}"##,
    ),
    ("dialect_2020_12", "the one dialect by its name", r#"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"#),
    ("id_at_the_root", "a name for the whole changes nothing", r#"{"$id":"https://example.com/s","type":"string"}"#),
    ("anchor", "a name for a part that nobody uses", r#"{"$anchor":"a","type":"string"}"#),
    ("ref", "a part of itself", r##"{"$defs":{"a":{"type":"integer"}},"$ref":"#/$defs/a"}"##),
    (
        "ref_escaped",
        "by a pointer in a fragment",
        r##"{"$defs":{"a/b c":{"type":"integer"}},"$ref":"#/$defs/a~1b%20c"}"##,
    ),
    ("ref_by_index", "an element of a list", r##"{"prefixItems":[{"type":"integer"},{"$ref":"#/prefixItems/0"}]}"##),
    (
        "ref_twice",
        "twice is no cycle",
        r##"{"$defs":{"a":{"type":"integer"}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}"##,
    ),
    ("ref_to_nowhere_in_enum", "a value, not a schema", r##"{"enum":[{"$ref":"#/nowhere"}]}"##),
    ("look_ahead_in_const", "nor is this one", r#"{"const":{"pattern":"(?=a)b"}}"#),
    (
        "names_like_keywords",
        "a property may be called anything",
        r#"{"properties":{"$ref":{"type":"string"},"$schema":{},"$id":{},"pattern":{}}}"#,
    ),
    ("unknown_keyword", "is an annotation", r#"{"minimun":3,"x-note":{"type":7}}"#),
    ("unknown_format", "formats are annotations", r#"{"format":"nonsense"}"#),
    ("nested_quantifier", "a linear engine has no trouble", r#"{"pattern":"^(a+)+$"}"#),
    ("named_group", "looks like look-around and is none", r#"{"pattern":"^(?<year>[0-9]{4})$"}"#),
    ("escaped_look_around", "nor are these", r#"{"pattern":"^\\(?=[(?=]$"}"#),
    ("repetition_1000", "a thousand of one letter", r#"{"pattern":"^a{1000}$"}"#),
    ("boolean_inside", "true and false are schemas but for the root", r#"{"properties":{"a":false,"b":true}}"#),
    (
        "definitions",
        "the older name of $defs",
        r##"{"definitions":{"a":{"type":"integer"}},"$ref":"#/definitions/a"}"##,
    ),
];

const INVALID: &str = "schema-invalid";
const EXTERNAL: &str = "schema-external-reference";
const DIALECT: &str = "schema-dialect";
const CYCLE: &str = "schema-in-place-cycle";
const PATTERN: &str = "schema-pattern-refused";

/// Name, why, a text that does not pass, its code.
pub(super) const REFUSED: &[Refused] = &[
    ("not_json", "JSON", "{", INVALID),
    ("infinite", "no such number", r#"{"maximum":1e400}"#, INVALID),
    ("large_integer", "not one number to all readers", r#"{"maximum":9007199254740992}"#, "body-malformed"),
    ("root_true", "it has to say something", "true", INVALID),
    ("root_array", "a list is no schema", "[]", INVALID),
    ("root_text", "nor is a text", "\"string\"", INVALID),
    ("twice", "first or last wins depends on the reader", r#"{"type":"string","type":"number"}"#, INVALID),
    ("twice_by_escape", "an escape does not make it another", r#"{"type":"string","typ\u0065":"number"}"#, INVALID),
    ("twice_deep", "at every level", r#"{"enum":[{"a":1,"a":1}]}"#, INVALID),
    ("type_unknown", "seven types there are", r#"{"type":"strng"}"#, INVALID),
    ("minimum_text", "a number", r#"{"minimum":"1"}"#, INVALID),
    ("max_length_negative", "not below nothing", r#"{"maxLength":-1}"#, INVALID),
    ("required_text", "a list", r#"{"required":"a"}"#, INVALID),
    ("enum_text", "a list", r#"{"enum":"a"}"#, INVALID),
    ("properties_list", "an object", r#"{"properties":[]}"#, INVALID),
    ("items_list", "draft-07's, prefixItems here", r#"{"items":[{}]}"#, INVALID),
    ("all_of_empty", "at least one", r#"{"allOf":[]}"#, INVALID),
    ("ref_number", "a text", r#"{"$ref":1}"#, INVALID),
    ("pattern_number", "a text", r#"{"pattern":1}"#, INVALID),
    ("inner_number", "a schema is an object, true or false", r#"{"properties":{"a":1}}"#, INVALID),
    ("ref_dangling", "to no part of it", r##"{"$ref":"#/$defs/none"}"##, INVALID),
    ("ref_dangling_unused", "also where nobody refers to it", r##"{"$defs":{"a":{"$ref":"#/$defs/none"}}}"##, INVALID),
    ("ref_dangling_index", "beyond the end", r##"{"prefixItems":[{"$ref":"#/prefixItems/1"}]}"##, INVALID),
    ("dialect_draft_07", "another dialect", r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, DIALECT),
    ("dialect_2019_09", "another dialect", r#"{"$schema":"https://json-schema.org/draft/2019-09/schema"}"#, DIALECT),
    ("dialect_own", "nobody's dialect", r#"{"$schema":"https://example.com/own"}"#, DIALECT),
    ("dialect_empty", "nobody's dialect", r#"{"$schema":""}"#, DIALECT),
    ("dialect_fragment", "exactly its name", r#"{"$schema":"https://json-schema.org/draft/2020-12/schema#"}"#, DIALECT),
    ("dialect_number", "a text", r#"{"$schema":2020}"#, DIALECT),
    (
        "dialect_inside",
        "for the whole or not at all",
        r#"{"properties":{"a":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}}"#,
        EXTERNAL,
    ),
    ("ref_remote", "nothing is fetched", r#"{"$ref":"https://example.com/x"}"#, EXTERNAL),
    (
        "ref_remote_nested",
        "nor three levels down",
        r#"{"properties":{"a":{"items":{"not":{"$ref":"http://example.com/x"}}}}}"#,
        EXTERNAL,
    ),
    (
        "ref_remote_unused",
        "nor where nobody refers to it",
        r#"{"$defs":{"unused":{"$ref":"https://example.com/x"}}}"#,
        EXTERNAL,
    ),
    (
        "ref_remote_in_enum",
        "nor where no schema is: readers differ",
        r#"{"enum":[{"$ref":"https://example.com/x"}]}"#,
        EXTERNAL,
    ),
    ("ref_remote_in_const", "likewise", r#"{"const":{"$ref":"https://example.com/x"}}"#, EXTERNAL),
    ("ref_remote_in_default", "likewise", r#"{"default":{"$ref":"https://example.com/x"}}"#, EXTERNAL),
    ("ref_remote_in_unknown", "likewise", r#"{"x-note":[{"$ref":"https://example.com/x"}]}"#, EXTERNAL),
    ("ref_file", "no file is opened", r#"{"$ref":"file:///etc/passwd"}"#, EXTERNAL),
    ("ref_urn", "no name is looked up", r#"{"$ref":"urn:example:x"}"#, EXTERNAL),
    ("ref_relative", "relative to what", r#"{"$ref":"other.json#/a"}"#, EXTERNAL),
    ("ref_host", "another host by two strokes", r#"{"$ref":"//example.com/x"}"#, EXTERNAL),
    ("ref_empty", "itself is #", r#"{"properties":{"a":{"$ref":""}}}"#, EXTERNAL),
    ("ref_anchor", "parts by their place alone", r##"{"$defs":{"a":{"$anchor":"here"}},"$ref":"#here"}"##, EXTERNAL),
    (
        "ref_meta_schema",
        "not even the dialect's own",
        r#"{"$ref":"https://json-schema.org/draft/2020-12/schema"}"#,
        EXTERNAL,
    ),
    ("dynamic_ref_remote", "nothing is fetched", r#"{"$dynamicRef":"https://example.com/x"}"#, EXTERNAL),
    (
        "dynamic_ref",
        "where it leads depends on the road",
        r##"{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}}"##,
        EXTERNAL,
    ),
    ("recursive_ref", "its older name", r##"{"items":{"$recursiveRef":"#"}}"##, EXTERNAL),
    (
        "id_inside",
        "below it, # is another place",
        r##"{"$defs":{"a":{"$id":"https://example.com/a","type":"string"}},"$ref":"#/$defs/a"}"##,
        EXTERNAL,
    ),
    (
        "ref_twice_named",
        "and what is refused anywhere is refused",
        r##"{"$defs":{"a":{}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"b"}]}"##,
        EXTERNAL,
    ),
    ("cycle", "itself, at the same place", r##"{"$ref":"#"}"##, CYCLE),
    (
        "cycle_of_two",
        "by way of another",
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        CYCLE,
    ),
    ("cycle_not", "by not", r##"{"not":{"$ref":"#"}}"##, CYCLE),
    ("cycle_all_of", "by allOf", r##"{"allOf":[{"$ref":"#"}]}"##, CYCLE),
    ("cycle_if", "by a condition", r##"{"if":{"$ref":"#"}}"##, CYCLE),
    ("cycle_then", "by what follows from it", r##"{"if":{},"then":{"oneOf":[{"$ref":"#"}]}}"##, CYCLE),
    ("cycle_dependent", "by a dependency", r##"{"dependentSchemas":{"a":{"$ref":"#"}}}"##, CYCLE),
    ("cycle_unused", "where nobody refers to it", r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}"##, CYCLE),
    ("cycle_below", "not the whole, a part", r##"{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}"##, CYCLE),
    ("look_ahead", "no linear engine has it", r#"{"pattern":"(?=a)b"}"#, PATTERN),
    ("look_ahead_negative", "likewise", r#"{"pattern":"^(?!a)"}"#, PATTERN),
    ("look_behind", "likewise", r#"{"pattern":"(?<=a)b"}"#, PATTERN),
    ("look_behind_negative", "likewise", r#"{"pattern":"(?<!a)b"}"#, PATTERN),
    ("back_reference", "likewise", r#"{"pattern":"^(a*)\\1$"}"#, PATTERN),
    ("repetition_of_repetition", "a million letters", r#"{"pattern":"(a{1000}){1000}"}"#, PATTERN),
    ("pattern_unclosed", "no pattern at all", r#"{"pattern":"("}"#, PATTERN),
    ("pattern_of_names", "patternProperties likewise", r#"{"patternProperties":{"(?=a)b":{}}}"#, PATTERN),
    ("pattern_of_names_unclosed", "likewise", r#"{"patternProperties":{"[":{}}}"#, PATTERN),
];

const STOCK: &str = r#"{"type":"object","properties":{"quantity":{"type":"integer","minimum":0}},"required":["quantity"],"additionalProperties":false}"#;
const TREE: &str = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}"##;
const SHUT: &str = r#"{"allOf":[{"properties":{"a":{"type":"integer"}}}],"unevaluatedProperties":false}"#;
const IF: &str = r#"{"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"required":["b"]}}"#;

type Fit = (&'static str, &'static str, &'static str, &'static str);
type Wrong = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

/// Name, why, a schema, an instance that fits.
pub(super) const FITS: &[Fit] = &[
    ("integer", "as it is asked for", STOCK, r#"{"quantity":4}"#),
    ("integer_point_zero", "4.0 is an integer", STOCK, r#"{"quantity":4.0}"#),
    ("integer_exponent", "whatever its spelling", STOCK, r#"{"quantity":4e2}"#),
    ("const_point_zero", "1.0 is 1", r#"{"const":1}"#, "1.0"),
    ("tree", "levels of itself", TREE, r#"{"children":[{"children":[]},{}]}"#),
    ("format", "is not enforced", r#"{"format":"date-time"}"#, "\"tomorrow\""),
    ("max_length", "characters are code points", r#"{"maxLength":1}"#, "\"\u{1f600}\""),
    ("pattern", "anywhere in the text", r#"{"pattern":"b"}"#, "\"abc\""),
    ("other_type", "what says nothing of a type does not ask for it", r#"{"minimum":3}"#, "\"x\""),
    ("unevaluated", "evaluated by allOf", SHUT, r#"{"a":1}"#),
    ("condition", "its then", IF, r#"{"a":1,"b":1}"#),
    ("no_condition", "its if does not fit", IF, r#"{"a":2}"#),
    (
        "ref_escaped",
        "the part that it names",
        r##"{"$defs":{"a/b c":{"type":"integer"}},"$ref":"#/$defs/a~1b%20c"}"##,
        "1",
    ),
    (
        "prefix",
        "items are those after the first",
        r#"{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}"#,
        r#"["a",1,2]"#,
    ),
];

/// Name, why, a schema, an instance that does not fit, and where.
pub(super) const VIOLATIONS: &[Wrong] = &[
    ("text", "a text is no integer", STOCK, r#"{"quantity":"four"}"#, &["/quantity"]),
    ("fraction", "nor is a fraction", STOCK, r#"{"quantity":4.5}"#, &["/quantity"]),
    ("below", "too small", STOCK, r#"{"quantity":-1}"#, &["/quantity"]),
    ("missing", "the place is the object", STOCK, "{}", &[""]),
    ("added", "a name that is not its", STOCK, r#"{"quantity":1,"extra":1}"#, &[""]),
    ("both", "all that is wrong", STOCK, r#"{"quantity":"x","extra":1}"#, &["", "/quantity"]),
    ("list", "another type", STOCK, "[]", &[""]),
    ("tree", "where in it", TREE, r#"{"children":[{},{"children":[{},3]}]}"#, &["/children/1/children/1"]),
    (
        "unknown_name",
        "a name that only the instance says is not told",
        r#"{"additionalProperties":{"type":"null"}}"#,
        r#"{"hunter2":1}"#,
        &["/*"],
    ),
    (
        "unknown_name_of_digits",
        "digits are places in a list",
        r#"{"additionalProperties":{"type":"null"}}"#,
        r#"{"12":1}"#,
        &["/12"],
    ),
    (
        "known_elsewhere",
        "a name that the schema says anywhere is told",
        r#"{"properties":{"b":{"properties":{"a":{}}}},"additionalProperties":{"type":"null"}}"#,
        r#"{"a":1}"#,
        &["/a"],
    ),
    (
        "escaped_name",
        "as a JSON Pointer",
        r#"{"properties":{"a/b~c":{"type":"null"}}}"#,
        r#"{"a/b~c":1}"#,
        &["/a~1b~0c"],
    ),
    (
        "alternatives",
        "none of them, at their place",
        r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}}}"#,
        r#"{"a":1}"#,
        &["/a"],
    ),
    ("true_is_not_1", "nor is 1 true", r#"{"items":{"const":1}}"#, "[1,true]", &["/1"]),
    ("same_number", "1 and 1.0 are the same element", r#"{"uniqueItems":true}"#, "[1,1.0]", &[""]),
    ("never", "what fits nothing", r#"{"properties":{"a":{"not":{}}}}"#, r#"{"a":1}"#, &["/a"]),
    ("unevaluated", "evaluated by nobody", SHUT, r#"{"a":1,"b":2}"#, &[""]),
    ("condition", "its then", IF, r#"{"a":1}"#, &[""]),
    ("dependent", "one asks for the other", r#"{"dependentRequired":{"a":["b"]}}"#, r#"{"a":1}"#, &[""]),
    ("pattern", "nowhere in the text", r#"{"items":{"pattern":"^b"}}"#, r#"["b","ab"]"#, &["/1"]),
    (
        "prefix",
        "each by its own",
        r#"{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}"#,
        r#"[1,"a",2]"#,
        &["/0", "/1"],
    ),
];
