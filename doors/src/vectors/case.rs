//! One case and how it is written.

use serde::Serialize;
use serde_json::{Value, json};

/// One case: a file of its own, named after it.
pub(super) struct Case {
    pub(super) name: String,
    /// What it is about, or which attack it stops.
    pub(super) why: String,
    pub(super) inputs: Value,
    /// `{"ok":true, values}` or `{"ok":false,"code":...}`.
    pub(super) expect: Value,
}

impl Case {
    pub(super) fn new(name: impl Into<String>, why: impl Into<String>, inputs: Value, expect: Value) -> Self {
        Case { name: name.into(), why: why.into(), inputs, expect }
    }

    /// The file: indented by one space, members in the order they were put in.
    pub(super) fn text(&self) -> String {
        let mut text = Vec::new();
        let indent = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut writer = serde_json::Serializer::with_formatter(&mut text, indent);
        let file = json!({ "why": self.why, "inputs": self.inputs, "expect": self.expect });
        // Neither a JSON value nor a Vec refuses to be written.
        file.serialize(&mut writer).expect("a JSON value is written into memory");
        text.push(b'\n');
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// `{"ok":true}` and these members.
pub(super) fn ok(members: Value) -> Value {
    let mut all = json!({ "ok": true });
    if let (Some(all), Value::Object(members)) = (all.as_object_mut(), members) {
        all.extend(members);
    }
    all
}

/// A refusal by its code.
pub(super) fn no(code: &str) -> Value {
    json!({ "ok": false, "code": code })
}

/// These inputs with some replaced or added; a member set to `Value::Null` stays, as null.
pub(super) fn with(inputs: &Value, changes: Value) -> Value {
    let mut all = inputs.clone();
    if let (Some(all), Value::Object(changes)) = (all.as_object_mut(), changes) {
        all.extend(changes);
    }
    all
}

/// A text among the inputs; empty if it is none.
pub(super) fn text<'a>(inputs: &'a Value, name: &str) -> &'a str {
    inputs[name].as_str().unwrap_or_default()
}

/// A number among the inputs; 0 if it is none.
pub(super) fn number(inputs: &Value, name: &str) -> u64 {
    inputs[name].as_u64().unwrap_or_default()
}
