//! Strict JSON on text: nothing is re-serialised, nothing is said twice.
//!
//! One pass over the text finds syntax errors, repeated keys at every level
//! and too much nesting. Two parsers that disagree on a repeated key would let
//! one signed text mean two things, so it is refused everywhere we parse.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::value::RawValue;

use crate::scan::scan;

/// How deep objects and arrays may nest.
pub const MAX_DEPTH: usize = 64;

/// The largest integer every JSON reader keeps exactly: 2^53 - 1.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Why a text is not JSON we read. A text with several faults reports broken
/// syntax and depth before repeated keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or something before or after it (a byte order mark, a second
    /// value): what was found or missing, and the byte offset.
    #[error("json: {0}")]
    Malformed(String),
    /// A key stands twice in one object.
    #[error("json: key {0:?} is there twice")]
    DuplicateKey(String),
    /// More than [`MAX_DEPTH`] levels.
    #[error("json: nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Checks that `text` is one JSON value, well-formed, without a byte order
/// mark or trailing data, at most [`MAX_DEPTH`] levels deep, no key twice.
pub fn check(text: &str) -> Result<(), JsonError> {
    scan(text).map(drop)
}

/// The members of the object that `text` is, in order, values as slices of
/// `text`; the whole text is checked.
///
/// # Errors
/// As [`check`]; a value that is not an object is `Malformed`.
pub fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, JsonError> {
    scan(text)?.ok_or_else(|| JsonError::Malformed("not an object".into()))
}

/// The object `text` with some members edited, every other byte as it was: `Some` replaces
/// the value in place or appends the member, `None` takes the member out. A relay that
/// re-serialised would change numbers, escapes and spacing it was never told to touch.
///
/// # Errors
/// As [`members`].
pub fn edit(text: &str, edits: &[(&str, Option<&str>)]) -> Result<String, JsonError> {
    let members = members(text)?;
    // How many there are on either side may be a stranger's choice: none is looked for in a line.
    let wanted: HashMap<&str, Option<&str>> = edits.iter().rev().copied().collect();
    let mut placed = HashSet::new();
    let open = text.find('{').map_or(0, |at| at + 1);
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(&text[..open]);
    let (mut from, mut first) = (open, true);
    for (key, value) in &members {
        // `value` is a slice of `text`: where it stands is how far apart the two begin.
        let begin = value.as_ptr() as usize - text.as_ptr() as usize;
        let before = &text[from..begin];
        from = begin + value.len();
        let edit = wanted.get(&**key);
        if edit.is_some() {
            placed.insert(&**key);
        }
        if let Some(None) = edit {
            continue;
        }
        // The comma stands before each member but the first that stays.
        let before = if first { before.trim_start().strip_prefix(',').unwrap_or(before) } else { before };
        out.push_str(before);
        out.push_str(edit.copied().flatten().unwrap_or(value));
        first = false;
    }
    for (name, new) in edits {
        if let Some(new) = new
            && placed.insert(name)
        {
            if !first {
                out.push(',');
            }
            out.push_str(&quote(name));
            out.push(':');
            out.push_str(new);
            first = false;
        }
    }
    out.push_str(&text[from..]);
    Ok(out)
}

/// The list `text` with some elements edited, every other byte as it was: what `edit`
/// returns stands in an element's place, `None` leaves it.
///
/// # Errors
/// As [`check`]; a value that is not a list is `Malformed`.
pub fn edit_each(text: &str, mut edit: impl FnMut(&str) -> Option<String>) -> Result<String, JsonError> {
    check(text)?;
    let list: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| JsonError::Malformed("not a list".into()))?;
    let mut out = String::with_capacity(text.len() + 64);
    let mut from = 0;
    for element in list {
        let raw = element.get();
        let begin = raw.as_ptr() as usize - text.as_ptr() as usize;
        if let Some(new) = edit(raw) {
            out.push_str(&text[from..begin]);
            out.push_str(&new);
            from = begin + raw.len();
        }
    }
    out.push_str(&text[from..]);
    Ok(out)
}

/// The string that this raw JSON value is; `None` for any other value, and for
/// a string with half a surrogate pair.
pub fn string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// A JSON object whose values stay the text they were received as.
#[derive(Clone, Default)]
pub struct RawObject {
    members: Vec<(String, Box<RawValue>)>,
}

impl RawObject {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads an object; the whole text is checked as by [`check`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let own = |(key, value): (Cow<'_, str>, &str)| {
            let raw =
                RawValue::from_string(value.to_owned()).map_err(|_| JsonError::Malformed("not a value".into()))?;
            Ok((key.into_owned(), raw))
        };
        let members = members(text)?.into_iter().map(own).collect::<Result<_, _>>()?;
        Ok(RawObject { members })
    }

    /// The value under this key, as text.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.members.iter().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }

    /// Takes the value under this key out.
    pub fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        let place = self.members.iter().position(|(k, _)| k == key)?;
        Some(self.members.remove(place).1)
    }

    /// Replaces the value in place, or appends the member.
    pub fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.members.iter_mut().find(|(k, _)| k == key) {
            Some((_, place)) => *place = value,
            None => self.members.push((key.to_owned(), value)),
        }
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.members.iter().map(|(k, v)| (k.as_str(), &**v))
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The object as compact text; every value byte for byte as it was.
    pub fn to_raw(&self) -> Box<RawValue> {
        let mut text = String::from("{");
        for (n, (key, value)) in self.members.iter().enumerate() {
            if n > 0 {
                text.push(',');
            }
            text.push_str(&quote(key));
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        // Quoted keys and values that are RawValue already: always an object.
        RawValue::from_string(text).expect("an object made of raw values is JSON")
    }
}

impl fmt::Debug for RawObject {
    /// Names only: values may be proofs or a caller's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.members.iter().map(|(k, _)| k)).finish()
    }
}

/// A text as a JSON string literal, minimally escaped.
pub fn quote(text: &str) -> String {
    // Writing a str into a String has no failing path in serde_json.
    serde_json::to_string(text).expect("a str is always a JSON string")
}

/// The value is not an integer as the wire writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("number: not an integer of 0..2^53-1, written N or N.0")]
pub struct NotAnInteger;

/// Reads a raw JSON number: `N` or `N.0`, 0..=2^53-1, nothing else.
///
/// Protobuf SDKs write timestamps as `1764540000.0`; an exponent, a fraction,
/// a sign, a string or a bool is refused, since the signed text is plain
/// decimal and must have one reading.
pub fn integer(raw: &str) -> Result<u64, NotAnInteger> {
    let digits = raw.strip_suffix(".0").unwrap_or(raw);
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    if digits.is_empty() || !plain || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(NotAnInteger);
    }
    digits.parse().ok().filter(|n| *n <= MAX_INTEGER).ok_or(NotAnInteger)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten times the members and edits take about ten times as long, not a hundred.
    #[test]
    fn many_edits_of_many_members_are_made_in_one_pass() {
        let cost = |n: usize| {
            let names: Vec<String> = (0..n).map(|i| format!("m{i}")).collect();
            let text =
                format!("{{{}}}", names.iter().map(|name| format!("\"{name}\":1")).collect::<Vec<_>>().join(","));
            let edits: Vec<(&str, Option<&str>)> = names.iter().map(|name| (name.as_str(), Some("2"))).collect();
            let best = (0..5).map(|_| {
                let begun = cpu_time::ThreadTime::now();
                let out = edit(&text, &edits).unwrap();
                assert!(!out.contains(":1"));
                begun.elapsed()
            });
            best.min().unwrap_or_default()
        };
        let (few, many) = (cost(2_000), cost(20_000));
        assert!(many < few * 50, "{few:?}, ten times as many {many:?}");
    }

    fn verdict(text: &str) -> &'static str {
        match check(text) {
            Ok(()) => "ok",
            Err(JsonError::Malformed(_)) => "malformed",
            Err(JsonError::DuplicateKey(_)) => "duplicate",
            Err(JsonError::TooDeep) => "deep",
        }
    }

    #[test]
    fn well_formed_and_nothing_said_twice() {
        let nest = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        let objects = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        for (text, expect) in [
            ("{}", "ok"),
            (" [ ] ", "ok"),
            ("{ }", "ok"),
            ("null", "ok"),
            (r#"{"a":[{"b":1},{"b":1}],"b":{"a":{}}}"#, "ok"),
            (r#"["\ud800", 1e999, -0.0e-5]"#, "ok"),
            (r#"{"a":1,"a":2}"#, "duplicate"),
            (r#"{"a":1,"\u0061":2}"#, "duplicate"),
            (r#"{"x":[{"a":1,"b":[],"a":2}]}"#, "duplicate"),
            (r#"{"":1,"":2}"#, "duplicate"),
            (r#"{"a":1,"a":2"#, "malformed"),
            (r#"{"\ud800":1}"#, "malformed"),
            ("", "malformed"),
            ("\u{feff}{}", "malformed"),
            ("{} {}", "malformed"),
            ("{},", "malformed"),
            ("[1,]", "malformed"),
            ("{\"a\":1,}", "malformed"),
            ("{\"a\" 1}", "malformed"),
            ("{a:1}", "malformed"),
            ("[1 2]", "malformed"),
            ("[}", "malformed"),
            ("{]", "malformed"),
            ("01", "malformed"),
            ("1.", "malformed"),
            (".5", "malformed"),
            ("+1", "malformed"),
            ("1e", "malformed"),
            ("-", "malformed"),
            ("NaN", "malformed"),
            ("tru", "malformed"),
            ("\"a\nb\"", "malformed"),
            (r#""\x""#, "malformed"),
            (r#""\u12g4""#, "malformed"),
            ("\"", "malformed"),
            ("\"\\", "malformed"),
            (&nest(64), "ok"),
            (&nest(65), "deep"),
            (&objects(64), "ok"),
            (&objects(65), "deep"),
            (&"[".repeat(1_000_000), "deep"),
        ] {
            assert_eq!(verdict(text), expect, "{text:.80}");
        }
    }

    /// Random edits of a text: our grammar and serde_json's must agree, save for
    /// what we add (depth, repeated keys) and what it reads into numbers and strings.
    #[test]
    fn the_grammar_is_the_one_of_serde_json() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand::rngs::Xoshiro128PlusPlus::seed_from_u64(3);
        let seed = r#" {"a":[1,-2.5e+3,true,null,"x\"\\\u00e9"],"b":{"c":{},"d":[]},"e":""} "#;
        let alphabet = br#"{}[]:,"\ue0129.-+tfn a"#;
        let mut agreed = 0;
        for _ in 0..200_000 {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..3) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, alphabet[rng.random_range(0..alphabet.len())]),
                    _ => bytes[at] = alphabet[rng.random_range(0..alphabet.len())],
                }
            }
            let text = String::from_utf8(bytes).unwrap(); // the seed and the alphabet are ASCII
            let theirs = serde_json::from_str::<&RawValue>(&text).is_ok();
            let ours = check(&text);
            match ours {
                Ok(()) | Err(JsonError::DuplicateKey(_)) => assert!(theirs, "{text}"),
                Err(JsonError::Malformed(what)) if what.starts_with("key is not text") => {}
                Err(_) => assert!(!theirs, "{text}"),
            }
            agreed += usize::from(theirs);
        }
        assert!(agreed > 10_000, "{agreed} of the texts were JSON");
    }

    #[test]
    fn values_stay_the_text_they_were() {
        let text = r#" { "a" : 1.0 , "b\n":[ 1, 2 ] ,"c":{"d" :"\u00e9"}, "e":null } "#;
        let mut object = RawObject::parse(text).unwrap();
        let pairs: Vec<_> = object.iter().map(|(k, v)| (k, v.get())).collect();
        assert_eq!(pairs, [("a", "1.0"), ("b\n", "[ 1, 2 ]"), ("c", r#"{"d" :"\u00e9"}"#), ("e", "null")]);
        assert_eq!(object.to_raw().get(), r#"{"a":1.0,"b\n":[ 1, 2 ],"c":{"d" :"\u00e9"},"e":null}"#);
        assert_eq!(object.remove("b\n").unwrap().get(), "[ 1, 2 ]");
        object.set("a", RawValue::from_string("7".into()).unwrap());
        object.set("z", RawValue::from_string("[]".into()).unwrap());
        assert_eq!(object.to_raw().get(), r#"{"a":7,"c":{"d" :"\u00e9"},"e":null,"z":[]}"#);
        assert!(object.get("b").is_none() && object.len() == 4);
        assert_eq!(RawObject::parse("{ }").unwrap().to_raw().get(), "{}");
        assert!(RawObject::parse("[]").is_err() && RawObject::new().is_empty());
    }

    #[test]
    fn integers_have_two_spellings() {
        for (raw, expect) in [
            ("0", Some(0)),
            ("0.0", Some(0)),
            ("1764540000", Some(1_764_540_000)),
            ("1764540000.0", Some(1_764_540_000)),
            ("9007199254740991", Some(MAX_INTEGER)),
            ("9007199254740991.0", Some(MAX_INTEGER)),
            ("9007199254740992", None),
            ("99999999999999999999999", None),
            ("1.00", None),
            ("1.5", None),
            ("1.", None),
            (".0", None),
            ("01", None),
            ("-0", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("1E0", None),
            ("\"1\"", None),
            ("true", None),
            ("null", None),
            ("", None),
            (" 1", None),
            ("1.0.0", None),
        ] {
            assert_eq!(integer(raw).ok(), expect, "{raw}");
        }
    }

    #[test]
    fn an_edit_changes_what_it_names_and_not_one_byte_more() {
        let text = "{ \"a\" : 1.10 ,\n \"b\\u0063\":[ 1,2 ] , \"d\":{\"a\":0} }";
        for (edits, expect) in [
            (&[][..], text.to_owned()),
            (&[("d", Some("7"))], text.replace("{\"a\":0}", "7")),
            (&[("a", Some("\"x\""))], text.replace("1.10", "\"x\"")),
            (&[("bc", None)], "{ \"a\" : 1.10 , \"d\":{\"a\":0} }".to_owned()),
            (&[("a", None)], "{\n \"b\\u0063\":[ 1,2 ] , \"d\":{\"a\":0} }".to_owned()),
            (&[("d", None)], "{ \"a\" : 1.10 ,\n \"b\\u0063\":[ 1,2 ] }".to_owned()),
            (&[("a", None), ("bc", None), ("d", None)], "{ }".to_owned()),
            (&[("n", Some("null"))], text.replace("0} }", "0},\"n\":null }")),
            (&[("n", None)], text.to_owned()),
            (&[("a", None), ("bc", None), ("d", None), ("n", Some("1"))], "{\"n\":1 }".to_owned()),
        ] {
            assert_eq!(edit(text, edits).unwrap(), expect, "{edits:?}");
        }
        assert_eq!(edit("{}", &[("n", Some("1"))]).unwrap(), "{\"n\":1}");
        assert_eq!(edit(" { } ", &[]).unwrap(), " { } ");
        let each = |raw: &str| (raw == "2").then(|| "20".to_owned());
        assert_eq!(edit_each("[ 1, 2 ,{\"a\":2},2]", each).unwrap(), "[ 1, 20 ,{\"a\":2},20]");
        assert!(edit_each("{}", each).is_err() && edit_each("[1,{\"a\":1,\"a\":1}]", each).is_err());
        assert!(edit("[]", &[]).is_err() && edit("{\"a\":1,\"a\":2}", &[]).is_err());
    }
}
