//! A bounded map that forgets what was not asked for lately.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two generations of entries; the older one is dropped whole when the younger
/// is full, so inserting costs the same at any fill and never scans.
///
/// A flood of new keys costs other callers speed, never memory and never a
/// wrong answer: only results that hold for ever are put in.
pub(crate) struct Recent<K, V> {
    /// Entries per generation; 0 remembers nothing.
    half: usize,
    generations: Mutex<Generations<K, V>>,
}

struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    /// Holds at most `capacity` entries (0 or 1: none).
    pub(crate) fn new(capacity: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Recent { half: capacity / 2, generations: Mutex::new(generations) }
    }

    pub(crate) fn find(&self, key: &K) -> Option<V> {
        if self.half == 0 {
            return None;
        }
        let mut held = self.lock();
        if let Some(value) = held.young.get(key) {
            return Some(value.clone());
        }
        let value = held.old.remove(key)?;
        held.put(key.clone(), value.clone(), self.half);
        Some(value)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        if self.half > 0 {
            self.lock().put(key, value, self.half);
        }
    }

    pub(crate) fn len(&self) -> usize {
        let held = self.lock();
        held.young.len() + held.old.len()
    }

    // A thread that panicked while holding the lock cannot have left a wrong
    // entry behind, only a missing one.
    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn put(&mut self, key: K, value: V, half: usize) {
        if self.young.len() >= half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let recent = Recent::new(10);
        for n in 0..1000 {
            recent.insert(n, n);
            assert_eq!(recent.find(&0), Some(0), "asked for each round, so kept");
            assert!(recent.len() <= 10);
        }
        assert_eq!(recent.find(&500), None);
        let none = Recent::new(0);
        none.insert(1, 1);
        assert_eq!(none.find(&1), None);
    }
}
