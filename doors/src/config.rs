//! What `wikala serve` is told, read out of its flags.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use wikala_witness::Policy;

use crate::exit::Failure;
use crate::house::Gateway;

/// The settings of a serving process.
#[derive(Debug, Clone)]
pub struct Serve {
    /// The data directory.
    pub data: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What clients call, and sign; `None`: `http://` and the bound address.
    pub public_url: Option<String>,
    /// What the record needs.
    pub policy: Policy,
    /// The admission list; `None`: open.
    pub admission: Option<PathBuf>,
    /// A comment on every idle stream.
    pub keep_alive: Duration,
    /// How long closing may take.
    pub shutdown_grace: Duration,
    /// Where metrics are served; `None`: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Plain HTTP off loopback is meant: a proxy in front speaks TLS.
    pub behind_proxy: bool,
    /// A gateway that may vouch for presenters.
    pub gateway: Option<Gateway>,
}

impl Serve {
    /// Refuses what would be a mistake: words that everybody on the way can read.
    ///
    /// # Errors
    /// 2: off loopback without `--behind-proxy`.
    pub fn check(self) -> Result<Self, Failure> {
        if !self.listen.ip().is_loopback() && !self.behind_proxy {
            return Err(Failure::usage(format!(
                "listen: {} is not loopback and this is plain HTTP, put a TLS proxy in front and add --behind-proxy",
                self.listen
            )));
        }
        Ok(self)
    }
}

/// A span as flags write it: `5s`, `2m`.
///
/// # Errors
/// What is expected instead.
pub fn span(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let scale = match unit {
        "s" => 1,
        "m" => 60,
        _ => return Err("not a span, write whole seconds or minutes: 5s, 2m".to_owned()),
    };
    digits
        .parse::<u64>()
        .ok()
        .filter(|n| *n <= 86_400)
        .map(|n| Duration::from_secs(n * scale))
        .ok_or_else(|| "not a span, write whole seconds or minutes: 5s, 2m".to_owned())
}

/// A network as flags write it: `10.0.0.0/8`, or one address.
///
/// # Errors
/// What is expected instead.
pub fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || "not a network, write address/bits: 10.0.0.0/8".to_owned();
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    match bits.unwrap_or(width) {
        bits if bits <= width => Ok((address, bits)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_seconds_or_minutes() {
        assert_eq!(span("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(span("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "5", "5h", "-5s", "1.5s", "5 s", "5µ"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_have_no_more_bits_than_their_address() {
        assert_eq!(network("10.0.0.0/8").unwrap().1, 8);
        assert_eq!(network("::1").unwrap().1, 128);
        for wrong in ["", "10.0.0.0/33", "x/8", "10.0.0.0/"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
