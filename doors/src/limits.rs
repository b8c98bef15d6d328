//! What one address may do: buckets that refill, streams that are counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::answer::{Door, Problem};

/// Streams open at once, per address.
pub const STREAMS: usize = 64;
/// Sockets that have not greeted yet, per address.
pub const GREETINGS: usize = 32;
/// Tickets a minute, per address.
pub const TICKETS_A_MINUTE: u64 = 120;
/// Runs a minute that nobody authenticated opened, per address.
pub const ANONYMOUS_RUNS_A_MINUTE: u64 = 600;
/// Addresses remembered at once. When full, the map is begun anew: a flood from
/// many addresses costs memory to nobody.
const ADDRESSES: usize = 65_536;

/// One kind of thing, a bucket an address.
#[derive(Debug)]
pub struct Bucket {
    a_minute: u64,
    /// Tokens in 1/60ths, and the second they were counted at.
    left: Mutex<HashMap<IpAddr, (u64, u64)>>,
}

impl Bucket {
    /// A bucket of `a_minute`, full at first.
    #[must_use]
    pub fn new(a_minute: u64) -> Self {
        Bucket { a_minute, left: Mutex::default() }
    }

    /// Takes one.
    ///
    /// # Errors
    /// `rate-limited`.
    pub fn take(&self, peer: IpAddr, now_s: u64, what: &str) -> Result<(), Problem> {
        let Ok(mut left) = self.left.lock() else { return Ok(()) };
        if left.len() >= ADDRESSES {
            left.clear();
        }
        let full = self.a_minute * 60;
        let (tokens, at) = left.entry(peer).or_insert((full, now_s));
        *tokens = tokens.saturating_add(now_s.saturating_sub(*at).saturating_mul(self.a_minute)).min(full);
        *at = now_s.max(*at);
        if *tokens < 60 {
            return Err(Problem::door(
                Door::RateLimited,
                format!("{what}: more than {} a minute from this address, try again in a few seconds", self.a_minute),
            ));
        }
        *tokens -= 60;
        Ok(())
    }
}

/// Things open at once, counted an address.
#[derive(Debug, Clone)]
pub struct Places {
    most: usize,
    what: &'static str,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A place for one of them; given back when dropped.
#[derive(Debug)]
pub struct Place(Places, IpAddr);

impl Places {
    fn new(most: usize, what: &'static str) -> Self {
        Places { most, what, open: Arc::default() }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// `rate-limited`.
    pub fn take(&self, peer: IpAddr) -> Result<Place, Problem> {
        if let Ok(mut places) = self.open.lock() {
            let open = places.entry(peer).or_insert(0);
            if *open >= self.most {
                return Err(Problem::door(
                    Door::RateLimited,
                    format!("{}: {} are open from this address, close one first", self.what, self.most),
                ));
            }
            *open += 1;
        }
        metrics::gauge!("wikala_open", "what" => self.what).increment(1.0);
        Ok(Place(self.clone(), peer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("wikala_open", "what" => self.0.what).decrement(1.0);
        if let Ok(mut places) = self.0.open.lock()
            && let Some(open) = places.get_mut(&self.1)
        {
            *open -= 1;
            if *open == 0 {
                places.remove(&self.1);
            }
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Limits {
    /// Tickets.
    pub tickets: Bucket,
    /// Runs nobody authenticated opened.
    pub anonymous_runs: Bucket,
    /// Streams.
    pub streams: Places,
    /// Sockets that have not proved a key yet.
    pub greetings: Places,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            tickets: Bucket::new(TICKETS_A_MINUTE),
            anonymous_runs: Bucket::new(ANONYMOUS_RUNS_A_MINUTE),
            streams: Places::new(STREAMS, "stream"),
            greetings: Places::new(GREETINGS, "link"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_refuses_the_one_too_many_and_refills_with_time() {
        let bucket = Bucket::new(2);
        let peer = IpAddr::from([127, 0, 0, 1]);
        assert!(bucket.take(peer, 100, "x").is_ok());
        assert!(bucket.take(peer, 100, "x").is_ok());
        assert!(bucket.take(peer, 100, "x").is_err());
        assert!(bucket.take(peer, 129, "x").is_err());
        assert!(bucket.take(peer, 130, "x").is_ok());
    }

    #[test]
    fn a_stream_gives_its_place_back() {
        let limits = Limits::default();
        let peer = IpAddr::from([127, 0, 0, 1]);
        let mut places: Vec<_> = (0..STREAMS).map(|_| limits.streams.take(peer).unwrap()).collect();
        assert!(limits.streams.take(peer).is_err());
        places.pop();
        assert!(limits.streams.take(peer).is_ok());
    }
}
