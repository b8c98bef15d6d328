//! Who is who in the demo: a letter for each key, so that a line reads as the story.

use serde_json::{Value, json};
use wikala_chain::PublicKey;

/// One of the cast: its letter, its key, what it is.
pub type Part = (&'static str, PublicKey, String);

/// The cast, in the order of the legend.
#[derive(Debug, Clone)]
pub struct Cast(Vec<Part>);

impl Cast {
    /// These, and nobody else.
    #[must_use]
    pub fn new(parts: Vec<Part>) -> Self {
        Cast(parts)
    }

    /// A key's letter; a fingerprint for one that is not of the cast, `nobody` for none.
    #[must_use]
    pub fn letter(&self, key: Option<PublicKey>) -> String {
        let Some(key) = key else { return "nobody".to_owned() };
        let part = self.0.iter().find(|(_, of, _)| *of == key);
        part.map_or_else(|| key.fingerprint().to_string(), |(letter, ..)| (*letter).to_owned())
    }

    /// A sentence with letters where it has fingerprints or whole keys.
    #[must_use]
    pub fn lettered(&self, sentence: &str) -> String {
        self.0.iter().fold(sentence.to_owned(), |words, (letter, key, _)| {
            words.replace(&key.to_hex(), letter).replace(&key.fingerprint().to_string(), letter)
        })
    }

    /// The legend, a line each.
    #[must_use]
    pub fn legend(&self) -> String {
        let line = |(letter, key, what): &Part| format!("  {letter}  {}  {what}", key.fingerprint());
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The legend as an object, `{letter: key}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.0.iter().map(|(letter, key, _)| ((*letter).to_owned(), json!(key.to_hex()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::SigningKey;

    #[test]
    fn sentences_name_letters_and_strangers_keep_their_fingerprint() {
        let (head, other) = (SigningKey::from_seed([1; 32]).public(), SigningKey::from_seed([2; 32]).public());
        let cast = Cast::new(vec![("H", head, "the head".to_owned())]);
        let said = cast.lettered(&format!("{} answered {}, not {}", head.fingerprint(), head, other.fingerprint()));
        assert_eq!(said, format!("H answered H, not {}", other.fingerprint()));
        assert_eq!(
            (cast.letter(Some(head)), cast.letter(Some(other)), cast.letter(None)),
            ("H".to_owned(), other.fingerprint().to_string(), "nobody".to_owned())
        );
        assert!(cast.legend().contains(&head.fingerprint().to_string()));
    }
}
