//! ProtoJSON as clients really send it: names in camelCase or snake_case, null and
//! an empty string mean absent, integers as `N`, `N.0` or a string, unknown members
//! are passed over. Values stay the text they were.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};

use super::refused::Refused;
use crate::answer::{Door, Problem};

/// The members of one message of the protocol.
#[derive(Debug)]
pub(super) struct Fields {
    place: String,
    // A tree: a caller chooses how many there are, and a list would be searched for each.
    members: BTreeMap<String, Box<RawValue>>,
}

impl Fields {
    /// Reads an object; `place` says where it stands, for whoever is told of a fault.
    pub(super) fn parse(raw: &str, place: &str) -> Result<Self, Refused> {
        if !raw.trim_start().starts_with('{') {
            return Err(Refused::field(place, "not an object"));
        }
        let object = RawObject::parse(raw)?;
        let mut members = BTreeMap::new();
        for (name, value) in object.iter() {
            // `taskId` beside `task_id`: two readers could take two different ones.
            if members.insert(camel(name), value.to_owned()).is_some() {
                let sentence = format!("{place}: {} is there twice, in two spellings", camel(name));
                return Err(Problem::door(Door::BodyDuplicateKey, sentence).into());
            }
        }
        Ok(Fields { place: place.to_owned(), members })
    }

    /// A member's text; null is absent.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(|value| value.get()).filter(|raw| *raw != "null")
    }

    /// The member is there, be it null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// A string; empty is absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Refused> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text = json::string(raw).ok_or_else(|| self.wrong(name, "not a string"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// A string that must be there.
    pub(super) fn required(&self, name: &str) -> Result<String, Refused> {
        self.text(name)?.ok_or_else(|| self.wrong(name, "required"))
    }

    /// A truth value, false when absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Refused> {
        match self.raw(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(self.wrong(name, "neither true nor false")),
        }
    }

    /// A count, zero or more.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, Refused> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let quoted = json::string(raw);
        json::integer(quoted.as_deref().unwrap_or(raw))
            .map(Some)
            .map_err(|_| self.wrong(name, "not an integer, zero or more"))
    }

    /// A list; empty when absent.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Box<RawValue>>, Refused> {
        let Some(raw) = self.raw(name) else { return Ok(Vec::new()) };
        serde_json::from_str(raw).map_err(|_| self.wrong(name, "not a list"))
    }

    /// An inner message.
    pub(super) fn inner(&self, name: &str) -> Result<Option<Fields>, Refused> {
        self.raw(name).map(|raw| Fields::parse(raw, &self.at(name))).transpose()
    }

    /// What is wrong with a member.
    pub(super) fn wrong(&self, name: &str, fact: &str) -> Refused {
        Refused::field(self.at(name), fact)
    }

    fn at(&self, name: &str) -> String {
        if self.place == "params" { name.to_owned() } else { format!("{}.{name}", self.place) }
    }
}

/// The name as ProtoJSON spells it.
pub(super) fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' if !out.is_empty() => upper = true,
            c if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name_and_null_is_absent() {
        let fields = Fields::parse(
            r#"{"task_id":"a","contextId":null,"page_size":"7","historyLength":2.0,"return_immediately":true,"x":""}"#,
            "params",
        )
        .unwrap();
        assert_eq!(fields.text("taskId").unwrap().as_deref(), Some("a"));
        assert_eq!(fields.text("contextId").unwrap(), None);
        assert_eq!(fields.text("x").unwrap(), None);
        assert_eq!(fields.count("pageSize").unwrap(), Some(7));
        assert_eq!(fields.count("historyLength").unwrap(), Some(2));
        assert!(fields.flag("returnImmediately").unwrap());
        assert!(fields.count("taskId").is_err() && fields.flag("pageSize").is_err() && fields.list("x").is_err());
        assert!(Fields::parse(r#"{"task_id":"a","taskId":"b"}"#, "params").is_err());
        assert!(Fields::parse("[]", "params").is_err());
    }
}
