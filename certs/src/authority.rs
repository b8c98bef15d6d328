//! Whose word counts: a small ordered set of keys, or nobody's in particular.

use wikala_chain::PublicKey;

/// The authorities of an ask or a run, copied when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritySet {
    /// In the order given, each once; `None` is open.
    keys: Option<Vec<PublicKey>>,
}

impl AuthoritySet {
    /// These keys and no others, in this order, repeated ones once. Without
    /// any key nobody is in it, which is not [`AuthoritySet::open`].
    pub fn of(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        let mut once = Vec::new();
        for key in keys {
            if !once.contains(&key) {
                once.push(key);
            }
        }
        AuthoritySet { keys: Some(once) }
    }

    /// There was no head at all: anyone who knows the run may act.
    pub fn open() -> Self {
        AuthoritySet { keys: None }
    }

    /// Whether anyone may act.
    pub fn is_open(&self) -> bool {
        self.keys.is_none()
    }

    /// Whether this key may act; always, if the set is open.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(key))
    }

    /// The keys in order; none if open.
    pub fn iter(&self) -> impl Iterator<Item = PublicKey> {
        self.keys.iter().flatten().copied()
    }
}
