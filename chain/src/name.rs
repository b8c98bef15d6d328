//! Agent names as hops carry them.

use std::fmt;

/// The longest agent name, in characters.
pub const MAX_NAME_CHARS: usize = 128;

/// An agent's name: 1..=128 characters of any script, no control characters.
///
/// Routes allow less (`[A-Za-z0-9_-]`); a hop may come from a witness that allows more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);

/// Not a name an agent can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("agent name: 1 to 128 characters without control characters expected")]
pub struct NameError;

impl AgentName {
    /// Reads a name, kept as it is written: no trimming, no normalisation, since
    /// signed bytes carry it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let fits = (1..=MAX_NAME_CHARS).contains(&text.chars().take(MAX_NAME_CHARS + 1).count());
        if !fits || text.chars().any(char::is_control) {
            return Err(NameError);
        }
        Ok(AgentName(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_script_no_controls() {
        for good in ["a", "translator", " ", "a:b", "و", &"\u{1f4e6}".repeat(128), "\""] {
            assert_eq!(AgentName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "\n", "a\0", "\u{85}", "\u{7f}", &"a".repeat(129), &"a".repeat(1 << 20)] {
            assert!(AgentName::new(bad).is_err());
        }
    }
}
