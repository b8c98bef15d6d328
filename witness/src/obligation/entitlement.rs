//! What the operator denies. Membership of the thread is the right to demand, answer, move and
//! withdraw; a list can take it from a key, everywhere or in one thread. It gives nothing.

use wikala_chain::PublicKey;

use crate::Witness;
use crate::ids::ThreadId;
use crate::refusal::{Code, No, Refusal};

/// What may be denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entitlement {
    /// To demand an answer.
    Create,
    /// To answer.
    Respond,
    /// To accept, decline and say how it goes.
    Update,
    /// To withdraw.
    Cancel,
}

impl Entitlement {
    /// All of them.
    pub const ALL: [Entitlement; 4] =
        [Entitlement::Create, Entitlement::Respond, Entitlement::Update, Entitlement::Cancel];

    /// Its name in the list.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Entitlement::Create => "obligation.create",
            Entitlement::Respond => "obligation.respond",
            Entitlement::Update => "obligation.update",
            Entitlement::Cancel => "obligation.cancel",
        }
    }
}

/// One line of the list. What is `None` means any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What.
    pub what: Option<Entitlement>,
    /// To whom, as itself or as the authority behind it.
    pub key: Option<PublicKey>,
    /// Where.
    pub thread: Option<ThreadId>,
}

impl Denied {
    /// Reads `deny ENTITLEMENT KEY [THREAD]`, `*` for any.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(line: &str) -> Result<Denied, &'static str> {
        const EXPECTED: &str =
            "not a line of the list, write: deny obligation.create|respond|update|cancel KEY [THREAD], * for any";
        fn any<T>(word: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, &'static str> {
            if word == "*" { Ok(None) } else { read(word).map(Some).ok_or(EXPECTED) }
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (what, key, thread) = match words.as_slice() {
            ["deny", what, key] => (what, key, &"*"),
            ["deny", what, key, thread] => (what, key, thread),
            _ => return Err(EXPECTED),
        };
        Ok(Denied {
            what: any(what, |word| Entitlement::ALL.into_iter().find(|what| what.as_str() == word))?,
            key: any(key, |word| PublicKey::from_hex(word).ok())?,
            thread: any(thread, ThreadId::parse)?,
        })
    }
}

impl Witness {
    /// Takes another list of what is denied.
    pub fn set_denied(&mut self, denied: Vec<Denied>) {
        self.policy.denied = denied;
    }

    /// Nothing denies it. `keys`: who signed, and in whose name.
    pub(super) fn entitled_to(&self, what: Entitlement, keys: &[PublicKey], thread: &ThreadId) -> Result<(), No> {
        let hit = self.policy.denied.iter().any(|denied| {
            denied.what.is_none_or(|denied| denied == what)
                && denied.key.is_none_or(|key| keys.contains(&key))
                && denied.thread.as_ref().is_none_or(|denied| denied == thread)
        });
        if hit {
            return Err(Refusal::new(
                Code::EntitlementDenied,
                format!("{}: denied by the operator of this witness, ask there", what.as_str()),
            )
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_denies_exactly_what_it_says() {
        let key = wikala_chain::SigningKey::from_seed([1; 32]).public();
        let thread = "thread_000000000000000000000001";
        let one = Denied::parse(&format!("deny obligation.create {key} {thread}")).unwrap();
        assert_eq!((one.what, one.key), (Some(Entitlement::Create), Some(key)));
        assert_eq!(one.thread.as_ref().map(ThreadId::as_str), Some(thread));
        assert_eq!(Denied::parse("deny * *"), Ok(Denied { what: None, key: None, thread: None }));
        for wrong in
            ["", "deny", "deny *", "allow * *", "deny obligation.read *", "deny * x", "deny * * x", "deny * * * *"]
        {
            assert!(Denied::parse(wrong).is_err(), "{wrong}");
        }
    }
}
