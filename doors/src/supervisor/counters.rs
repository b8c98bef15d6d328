//! The six counters of an inbox, read strictly: what is shown must be what was counted.

use serde_json::{Map, Value};

/// Their names, in the order they are shown (obligations.md 2.9).
pub const NAMES: [&str; 6] =
    ["unread_information", "action_required", "awaiting_peer", "awaiting_human", "overdue", "failed"];

/// Beyond it readers of JSON differ in what they read: 2^53-1.
const MOST: u64 = 9_007_199_254_740_991;

/// How much waits for whom. Counts, no content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters([u64; 6]);

impl Counters {
    /// Reads the six, no more and no fewer, each a whole number from 0 to 2^53-1. `true`, `1.0`
    /// and `"1"` are none.
    ///
    /// # Errors
    /// One sentence that names the first that is not one.
    pub fn read(words: &Value) -> Result<Counters, String> {
        let members = words.as_object().ok_or("counters: no object")?;
        if let Some(name) = members.keys().find(|name| !NAMES.contains(&name.as_str())) {
            let name: String = name.chars().take(32).collect();
            return Err(format!("counters: {name:?} is none of them"));
        }
        let mut counted = [0; 6];
        for (count, name) in counted.iter_mut().zip(NAMES) {
            let raw = members.get(name).ok_or_else(|| format!("counters: {name} is missing"))?;
            let number = raw.as_u64().filter(|count| *count <= MOST);
            *count = number.ok_or_else(|| format!("counters: {name} is no whole number"))?;
        }
        Ok(Counters(counted))
    }

    /// Name and count, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }

    /// As the witness tells them.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.iter().map(|(name, count)| (name.to_owned(), count.into())).collect::<Map<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_true_integers_are_counts() {
        let good = Counters([0, 1, 2, 3, 4, 9_007_199_254_740_991]);
        assert_eq!(Counters::read(&good.to_json()), Ok(good));
        for bad in [
            json!(true),
            json!(1.0),
            json!(-1),
            json!("1"),
            json!(null),
            json!([1]),
            json!(1.5),
            json!(1e3),
            json!(9_007_199_254_740_992_u64),
        ] {
            let mut words = good.to_json();
            words["overdue"] = bad.clone();
            assert!(Counters::read(&words).unwrap_err().contains("overdue"), "{bad}");
        }
        let mut more = good.to_json();
        more["later"] = 1.into();
        let mut fewer = good.to_json();
        fewer.as_object_mut().unwrap().remove("failed");
        for bad in [more, fewer, json!([]), json!(null)] {
            assert!(Counters::read(&bad).is_err(), "{bad}");
        }
    }
}
