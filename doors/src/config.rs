//! What `wikala serve` is told, read out of its flags.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderName, Uri};
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
    /// What is denied about obligations; `None`: nothing.
    pub entitlements: Option<PathBuf>,
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
    /// 2: off loopback without `--behind-proxy`; a deadline of no length.
    pub fn check(self) -> Result<Self, Failure> {
        if !self.listen.ip().is_loopback() && !self.behind_proxy {
            return Err(Failure::usage(format!(
                "listen: {} is not loopback and this is plain HTTP, put a TLS proxy in front and add --behind-proxy",
                self.listen
            )));
        }
        // A comment every zero seconds floods, an offer of zero seconds nobody can take.
        for (flag, length) in [("keepalive", self.keep_alive.as_secs()), ("offer-timeout", self.policy.offer_timeout_s)]
        {
            if length == 0 {
                return Err(Failure::usage(format!("--{flag}: no length at all, at least 1s expected")));
            }
        }
        Ok(self)
    }
}

/// A public address as clients call it: `https://witness.example/prefix`. Signatures
/// cover it byte for byte, so what could never be called is refused at the start.
///
/// # Errors
/// What is expected instead.
pub fn public_url(text: &str) -> Result<String, String> {
    let wrong = || "not an address clients can call, write https://witness.example or with a path".to_owned();
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let host = url.authority().filter(|host| !host.host().is_empty() && !host.as_str().contains('@'));
    match (url.scheme_str(), host) {
        (Some("http" | "https"), Some(_)) if !text.contains(['?', '#']) => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(wrong()),
    }
}

/// A header's name, in lower case.
///
/// # Errors
/// What is expected instead.
pub fn header_name(text: &str) -> Result<String, String> {
    let name = HeaderName::try_from(text).map_err(|_| "not a header name, for instance x-presenter".to_owned())?;
    Ok(name.as_str().to_owned())
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
    Some(digits)
        // The parser would also take a sign.
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|digits| digits.parse::<u64>().ok())
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
        for wrong in ["", "s", "5", "5h", "-5s", "1.5s", "5 s", "5µ", "+5s", "99999999s"] {
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

    #[test]
    fn a_public_url_is_one_that_can_be_called() {
        assert_eq!(public_url("https://w.example/in/").as_deref(), Ok("https://w.example/in"));
        assert_eq!(public_url("http://[::1]:7420").as_deref(), Ok("http://[::1]:7420"));
        for wrong in [
            "",
            "w.example",
            "/in",
            "ftp://w.example",
            "https://",
            "https://a@w.example",
            "https://w.example/?a",
            "https://w.example/#a",
        ] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(header_name("X-Presenter").as_deref(), Ok("x-presenter"));
        assert!(header_name("x presenter").is_err());
    }

    #[test]
    fn what_would_be_a_mistake_is_refused() {
        let serve = |listen: &str, behind_proxy: bool, keep_alive: u64| {
            Serve {
                data: PathBuf::new(),
                listen: listen.parse().unwrap(),
                public_url: None,
                policy: Policy::default(),
                admission: None,
                entitlements: None,
                keep_alive: Duration::from_secs(keep_alive),
                shutdown_grace: Duration::ZERO,
                metrics_listen: None,
                behind_proxy,
                gateway: None,
            }
            .check()
            .map(|_| ())
            .map_err(|failure| failure.code)
        };
        assert_eq!(serve("127.0.0.1:0", false, 15), Ok(()));
        assert_eq!(serve("[::1]:0", false, 15), Ok(()));
        assert_eq!(serve("0.0.0.0:0", false, 15), Err(2));
        assert_eq!(serve("0.0.0.0:0", true, 15), Ok(()));
        assert_eq!(serve("127.0.0.1:0", false, 0), Err(2));
    }
}
