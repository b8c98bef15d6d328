//! Time as it is handed in: seconds, and one window.

use std::fmt;

/// How far a signed timestamp may lie from now, in seconds, either way.
pub const WINDOW_S: u64 = 60;

/// A point in time, Unix seconds. Handed in by whoever owns the clock; nothing here reads one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// This many seconds after 1970-01-01T00:00:00Z.
    pub const fn from_secs(secs: u64) -> Self {
        Moment(secs)
    }

    /// Unix seconds.
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// So many seconds later; stops at the end of time instead of wrapping.
    pub const fn plus(self, secs: u64) -> Self {
        Moment(self.0.saturating_add(secs))
    }

    /// Seconds since an earlier moment; 0 if the clock was set back past it.
    pub const fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether something signed at this Unix second is fresh: |now - signed| <= 60,
/// inclusive both ways, since the signer's clock may be ahead of ours.
pub const fn is_fresh(now: Moment, signed_at: u64) -> bool {
    now.0.abs_diff(signed_at) <= WINDOW_S
}

/// `signed 71 s ago, window is 60 s`: the sentence of everything stale.
pub(crate) fn staleness(now: Moment, signed_at: u64) -> String {
    let (apart, side) = (now.0.abs_diff(signed_at), if signed_at > now.0 { "ahead" } else { "ago" });
    format!("signed {apart} s {side}, window is {WINDOW_S} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_exact_on_both_sides() {
        let now = Moment::from_secs(1_764_540_000);
        for (off, fresh) in [(0, true), (59, true), (60, true), (61, false), (u64::MAX, false)] {
            assert_eq!(is_fresh(now, now.as_secs().saturating_sub(off)), fresh, "-{off}");
            assert_eq!(is_fresh(now, now.as_secs().saturating_add(off)), fresh, "+{off}");
        }
        assert!(is_fresh(Moment::from_secs(0), 60) && !is_fresh(Moment::from_secs(0), 61));
        assert_eq!(Moment::from_secs(5).since(Moment::from_secs(9)), 0);
        assert_eq!(Moment::from_secs(u64::MAX).plus(1), Moment::from_secs(u64::MAX));
    }
}
