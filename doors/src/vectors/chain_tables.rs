//! Crafted headers, claims, targets and names, each wrong in one way.
//! `$H`, `$P` and `$X` stand for those parties' keys.

/// Name, why, the value where a chain stands, code, hop.
pub(super) const LISTS: [(&str, &str, &str, &str, Option<usize>); 7] = [
    ("chain_empty", "no chain is written by leaving it out", "[]", "chain-empty", None),
    ("chain_is_object", "a list", "{\"a\":1}", "chain-not-a-list", None),
    ("chain_is_text", "a list", "\"abc\"", "chain-not-a-list", None),
    ("chain_is_number", "a list", "0", "chain-not-a-list", None),
    ("chain_is_false", "only null stands for no chain", "false", "chain-not-a-list", None),
    ("hop_null", "a list of strings", "[null]", "hop-not-a-string", Some(0)),
    ("hop_list", "a list of strings", "[[\"x\"]]", "hop-not-a-string", Some(0)),
];

/// Name, why, the header.
pub(super) const HEADERS: [(&str, &str, &str); 11] = [
    ("header_alg_none", "unsigned tokens are not tokens", r#"{"alg":"none","typ":"JWT"}"#),
    ("header_alg_ed25519", "the fully specified name is another algorithm to some readers", r#"{"alg":"Ed25519"}"#),
    ("header_alg_lower_case", "names are compared exactly", r#"{"alg":"eddsa","typ":"JWT"}"#),
    ("header_alg_missing", "the algorithm is said", r#"{"typ":"JWT"}"#),
    ("header_alg_twice", "no key twice in the header either", r#"{"alg":"none","alg":"EdDSA"}"#),
    ("header_typ_other", "typ, when there, is JWT", r#"{"alg":"EdDSA","typ":"jwt"}"#),
    (
        "header_kid",
        "the header is closed: a kid tells some reader to fetch another key",
        r#"{"alg":"EdDSA","typ":"JWT","kid":1}"#,
    ),
    (
        "header_b64_false",
        "the header is closed: b64 changes which bytes are signed",
        r#"{"alg":"EdDSA","typ":"JWT","b64":false}"#,
    ),
    ("header_crit", "the header is closed: crit asks for extensions nobody has", r#"{"alg":"EdDSA","crit":["b64"]}"#),
    ("header_jwk", "the header is closed: a key in it is no party", r#"{"alg":"EdDSA","jwk":{}}"#),
    ("header_array", "the header is an object", r#"["EdDSA"]"#),
];

/// Name, why, the claims of the only hop (signed by H), code.
pub(super) const CLAIMS: [(&str, &str, &str, &str); 39] = [
    (
        "actor_key_identity",
        "the identity point: a constant signature verifies for anything",
        r#"{"actorPublicKey":"0100000000000000000000000000000000000000000000000000000000000000","prevHash":null}"#,
        "hop-weak-key",
    ),
    (
        "actor_key_order_8",
        "a point of small order",
        r#"{"actorPublicKey":"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a","prevHash":null}"#,
        "hop-weak-key",
    ),
    (
        "actor_key_torsion",
        "H's key and a point of order 8: verifiers disagree on its signatures",
        r#"{"actorPublicKey":"d7081f8e05fb94cd7b251bf94dc4e12cb7d7933835addc91930ee6db68ef9288","prevHash":null}"#,
        "hop-weak-key",
    ),
    (
        "actor_key_not_canonical",
        "a second encoding of the identity point (y = p + 1)",
        r#"{"actorPublicKey":"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f","prevHash":null}"#,
        "hop-key",
    ),
    (
        "actor_key_not_on_curve",
        "no point has this y",
        r#"{"actorPublicKey":"0200000000000000000000000000000000000000000000000000000000000000","prevHash":null}"#,
        "hop-key",
    ),
    (
        "actor_key_not_hex",
        "not a key at all",
        r#"{"actorPublicKey":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz","prevHash":null}"#,
        "hop-key",
    ),
    ("actor_key_empty", "not a key at all", r#"{"actorPublicKey":"","prevHash":null}"#, "hop-key"),
    (
        "actor_key_spaces",
        "a key has one spelling, or one party is two heads",
        r#"{"actorPublicKey":"bc7cbcb5636375fa1d82434d466724d9 2377f53b980695dd49d26d0ce12205a5","prevHash":null}"#,
        "hop-key",
    ),
    (
        "actor_key_upper_case",
        "a key has one spelling, or one party is two heads",
        r#"{"actorPublicKey":"BC7CBCB5636375FA1D82434D466724D92377F53B980695DD49D26D0CE12205A5","prevHash":null}"#,
        "hop-key",
    ),
    ("actor_key_missing", "nobody signed", r#"{"prevHash":null}"#, "hop-claims"),
    ("actor_key_number", "types are checked before keys", r#"{"actorPublicKey":5,"prevHash":null}"#, "hop-claims"),
    ("actor_key_null", "types are checked before keys", r#"{"actorPublicKey":null,"prevHash":null}"#, "hop-claims"),
    (
        "actor_key_twice",
        "first or last wins depends on the reader",
        r#"{"actorPublicKey":"$X","actorPublicKey":"$H","prevHash":null}"#,
        "hop-duplicate-key",
    ),
    (
        "key_twice_by_escape",
        "an escape does not make it another key",
        r#"{"actorPublicKey":"$H","prevHash":null,"prev\u0048ash":null}"#,
        "hop-duplicate-key",
    ),
    (
        "dispatched_to_key_twice",
        "no key twice at any depth",
        r#"{"actorPublicKey":"$H","prevHash":null,"dispatchedTo":{"name":"a","name":"b","providerKey":"$P"}}"#,
        "hop-duplicate-key",
    ),
    (
        "duplicate_before_registered",
        "repeated keys are told before the set of claims is looked at",
        r#"{"actorPublicKey":"$H","prevHash":null,"iat":1,"iat":1}"#,
        "hop-duplicate-key",
    ),
    (
        "syntax_before_duplicate",
        "a text with several faults: broken syntax is told before a repeated key",
        r#"{"actorPublicKey":"$H","actorPublicKey":"$H""#,
        "hop-json",
    ),
    ("prev_hash_missing", "null is written, not left out", r#"{"actorPublicKey":"$H"}"#, "hop-claims"),
    ("prev_hash_empty", "null is written null", r#"{"actorPublicKey":"$H","prevHash":""}"#, "hop-claims"),
    ("prev_hash_false", "null is written null", r#"{"actorPublicKey":"$H","prevHash":false}"#, "hop-claims"),
    (
        "unknown_claim",
        "the set of claims is closed",
        r#"{"actorPublicKey":"$H","prevHash":null,"subject":"alice"}"#,
        "hop-claims",
    ),
    (
        "claim_in_other_case",
        "the set of claims is closed, names are compared exactly",
        r#"{"actorPublicKey":"$H","prevHash":null,"PrevHash":null}"#,
        "hop-claims",
    ),
    (
        "claim_iat_text",
        "a hop carries no time",
        r#"{"actorPublicKey":"$H","prevHash":null,"iat":"x"}"#,
        "hop-registered-claim",
    ),
    (
        "claim_iat_future",
        "a hop carries no time",
        r#"{"actorPublicKey":"$H","prevHash":null,"iat":4102444800}"#,
        "hop-registered-claim",
    ),
    (
        "claim_exp_text",
        "a hop carries no time, well-formed or not",
        r#"{"actorPublicKey":"$H","prevHash":null,"exp":"x"}"#,
        "hop-registered-claim",
    ),
    (
        "claim_nbf",
        "a hop carries no time",
        r#"{"actorPublicKey":"$H","prevHash":null,"nbf":0}"#,
        "hop-registered-claim",
    ),
    (
        "claim_iss",
        "registered claims mean something to some readers",
        r#"{"actorPublicKey":"$H","prevHash":null,"iss":"me"}"#,
        "hop-registered-claim",
    ),
    (
        "claim_sub",
        "registered claims mean something to some readers",
        r#"{"actorPublicKey":"$H","prevHash":null,"sub":"alice"}"#,
        "hop-registered-claim",
    ),
    (
        "claim_aud",
        "registered claims mean something to some readers",
        r#"{"actorPublicKey":"$H","prevHash":null,"aud":[]}"#,
        "hop-registered-claim",
    ),
    (
        "claim_jti_number",
        "registered claims mean something to some readers",
        r#"{"actorPublicKey":"$H","prevHash":null,"jti":5}"#,
        "hop-registered-claim",
    ),
    (
        "registered_before_unknown",
        "a registered claim wins over other faults of the set",
        r#"{"subject":"alice","actorPublicKey":5,"iat":1}"#,
        "hop-registered-claim",
    ),
    ("claims_array", "claims are one JSON object", r#"["$H",null]"#, "hop-json"),
    ("claims_null", "claims are one JSON object", "null", "hop-json"),
    ("claims_empty", "claims are one JSON object", "", "hop-json"),
    ("claims_not_json", "claims are one JSON object", "xx", "hop-json"),
    ("claims_bom", "no byte order mark", "\u{feff}{\"actorPublicKey\":\"$H\",\"prevHash\":null}", "hop-json"),
    (
        "claims_trailing_data",
        "one object and nothing after it",
        r#"{"actorPublicKey":"$H","prevHash":null}{}"#,
        "hop-json",
    ),
    (
        "dispatched_to_closed",
        "members that nobody reads are not signed over",
        r#"{"actorPublicKey":"$H","prevHash":null,"dispatchedTo":{"providerKey":"$P","name":"a","at":1}}"#,
        "hop-claims",
    ),
    (
        "dispatched_to_weak_key",
        "the actor key rules hold for the target too",
        r#"{"actorPublicKey":"$H","prevHash":null,"dispatchedTo":{"providerKey":"0100000000000000000000000000000000000000000000000000000000000000","name":"a"}}"#,
        "hop-claims",
    ),
];

/// Name, why, the target of the second hop (by W); all are `hop-claims`.
pub(super) const TARGETS: [(&str, &str, &str); 6] = [
    ("dispatched_to_null", "absent or an object, never null", "null"),
    ("dispatched_to_list", "absent or an object", r#"["$P","n"]"#),
    ("dispatched_to_key_not_hex", "the target must be a key that can sign next", r#"{"providerKey":"zz","name":"n"}"#),
    ("dispatched_to_key_missing", "the target must be a key that can sign next", r#"{"name":"n"}"#),
    ("dispatched_to_name_missing", "an agent is a key and a name", r#"{"providerKey":"$P"}"#),
    ("dispatched_to_name_number", "the agent name is a string", r#"{"providerKey":"$P","name":1}"#),
];

/// Name, why, a text, how often it stands in the agent's name, whether that reads.
pub(super) const NAMES: [(&str, &str, &str, usize, bool); 10] = [
    ("name_128_characters", "the longest name, in characters and not in bytes", "é", 128, true),
    ("name_129_characters", "one more than a name has", "é", 129, false),
    ("name_any_script", "names of any script, written as UTF-8", "وكالة 翻訳 📦", 1, true),
    ("name_escaped", "an escape is read as what it stands for, and stays in the hashed text", r"\u0061\u00e9", 1, true),
    ("name_128_astral", "a character is a code point, not a UTF-16 unit", "📦", 128, true),
    ("name_empty", "an agent has a name", "", 1, false),
    ("name_control_character", "a line break in a name forges a line in a log", r"a\nb", 1, false),
    ("name_delete_character", "U+007F is a control character", r"a\u007fb", 1, false),
    ("name_c1_control_character", "so are U+0080 to U+009F", r"a\u0085b", 1, false),
    ("name_half_surrogate", "half a surrogate pair is no text", r"\ud83d", 1, false),
];
