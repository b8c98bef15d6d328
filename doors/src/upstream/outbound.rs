//! How the witness asks an upstream: one address, the operator's own headers, and
//! nothing of a caller's. What a caller sent as `authorization`, cookies or forwarding
//! headers was never kept, so it cannot leave.

use std::path::Path;
use std::time::Duration;

use axum::http::header::{ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::client::{Client, Events};

/// How long the head of an answer may take. A blocking agent answers when it is done.
const HEAD: Duration = Duration::from_secs(300);
/// How long a small answer (a card, a task) may take, whole.
const WHOLE: Duration = Duration::from_secs(60);
/// The largest whole answer read, bytes.
pub const BODY: usize = 10 * 1024 * 1024;
/// How many redirects are followed, each within the origin.
const REDIRECTS: usize = 3;
/// The first and the longest wait between tries of a connection that could not be made.
const WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Headers that belong to a connection or to us.
const NOT_THE_OPERATORS: [&str; 7] =
    ["host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "accept-encoding"];

/// Why an upstream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// Nothing of the request was sent.
    Unreached(String),
    /// The request may have arrived.
    Lost(String),
    /// It answered, and that is no answer to go on with.
    Refused(String),
    /// It answered that it cannot now (HTTP 5xx, 429, 408): no word on the task it was asked about.
    Busy(String),
}

impl Failed {
    /// The reason as it stands in the record: a word, then the details.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Failed::Unreached(why) => format!("upstream_unreachable: {why}"),
            Failed::Lost(why) => format!("upstream_lost: {why}"),
            Failed::Refused(why) | Failed::Busy(why) => format!("upstream_refused: {why}"),
        }
    }
}

/// A client of one upstream agent.
#[derive(Debug, Clone)]
pub struct Outbound {
    client: Client,
    /// How long a connection that cannot be made is tried again.
    patience: Duration,
    headers: HeaderMap,
}

impl Outbound {
    /// Reads the operator's headers: `Name: value` a line, `#` begins a comment.
    ///
    /// # Errors
    /// One sentence: the file cannot be read, or a line is no header.
    pub fn open(headers: Option<&Path>) -> Result<Self, String> {
        let mut own = HeaderMap::new();
        if let Some(file) = headers {
            let place = file.display();
            let text = std::fs::read_to_string(file).map_err(|error| format!("headers: {place} ({error})"))?;
            for (number, line) in text.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                // Never the line itself: it may be a secret.
                let wrong = || format!("headers: {place} line {} is no header, write `Name: value`", number + 1);
                let (name, value) = line.split_once(':').ok_or_else(wrong)?;
                let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
                let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
                if NOT_THE_OPERATORS.contains(&name.as_str()) {
                    return Err(format!("headers: {place} line {}: {name} is not the operator's to set", number + 1));
                }
                value.set_sensitive(true);
                own.append(name, value);
            }
        }
        Ok(Outbound { client: Client::new(), patience: Duration::ZERO, headers: own })
    }

    /// The same, for an agent that was there: one that restarts is waited for, as a lost link is.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Outbound { patience, ..self }
    }

    /// One request; its status, headers and body. Tried again only while no connection
    /// could be made: what may have arrived is not sent a second time.
    ///
    /// # Errors
    /// [`Failed::Unreached`], [`Failed::Lost`].
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&str>,
        more: &[(&str, &str)],
    ) -> Result<(StatusCode, HeaderMap, Incoming), Failed> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS {
            let (status, headers, answer) = self.once(&method, &url, body, more).await?;
            // Only those that keep the method: a POST must not become a GET.
            if status != StatusCode::TEMPORARY_REDIRECT && status != StatusCode::PERMANENT_REDIRECT {
                return Ok((status, headers, answer));
            }
            let to = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("");
            url = within(&url, to).ok_or_else(|| {
                Failed::Refused("redirected to another origin, add the agent with that address".to_owned())
            })?;
        }
        Err(Failed::Refused(format!("redirected more than {REDIRECTS} times")))
    }

    async fn once(
        &self,
        method: &Method,
        url: &str,
        body: Option<&str>,
        more: &[(&str, &str)],
    ) -> Result<(StatusCode, HeaderMap, Incoming), Failed> {
        let until = Instant::now() + self.patience;
        let mut wait = WAIT.0;
        loop {
            let mut headers: Vec<(&str, &str)> = self
                .headers
                .iter()
                .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
                .filter(|(name, _)| !more.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name)))
                .collect();
            headers.extend_from_slice(more);
            // Compressed answers would be buffered on the way, event streams above all.
            headers.push((ACCEPT_ENCODING.as_str(), "identity"));
            let sent =
                self.client.request(method.clone(), url, body.map(|body| body.as_bytes().to_vec()), &headers, None);
            match tokio::time::timeout(HEAD, sent).await {
                Err(_) => return Err(Failed::Lost(format!("no answer in {} s", HEAD.as_secs()))),
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(unsent)) if unsent.never_left && Instant::now() < until => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(WAIT.1);
                }
                Ok(Err(unsent)) if unsent.never_left => return Err(Failed::Unreached(unsent.why)),
                Ok(Err(unsent)) => return Err(Failed::Lost(unsent.why)),
            }
        }
    }

    /// One request answered whole, as text.
    ///
    /// # Errors
    /// As [`Outbound::send`]; an answer that breaks off, is too long or no text.
    pub async fn text(
        &self,
        method: Method,
        url: &str,
        body: Option<&str>,
        more: &[(&str, &str)],
    ) -> Result<(StatusCode, HeaderMap, String), Failed> {
        let (status, headers, answer) = self.send(method, url, body, more).await?;
        let text = whole(answer).await?;
        Ok((status, headers, text))
    }

    /// What a body that has begun goes on to say, as events.
    #[must_use]
    pub fn events(headers: HeaderMap, body: Incoming) -> Events {
        Events::over(headers, body, BODY)
    }
}

/// The rest of an answer, as text.
///
/// # Errors
/// It breaks off, is too long, does not come or is no text.
pub async fn whole(answer: Incoming) -> Result<String, Failed> {
    let read = Limited::new(answer, BODY).collect();
    let bytes = match tokio::time::timeout(WHOLE, read).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Err(Failed::Lost(format!("the answer broke off ({error})"))),
        Err(_) => return Err(Failed::Lost(format!("the answer did not end in {} s", WHOLE.as_secs()))),
    };
    String::from_utf8(bytes.into()).map_err(|_| Failed::Refused("the answer is not UTF-8".to_owned()))
}

/// Is this answer an event stream?
#[must_use]
pub fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Where `to` leads as seen from `from`, if that is the same origin: an upstream must not
/// send our headers and a caller's words to somebody else.
#[must_use]
pub fn within(from: &str, to: &str) -> Option<String> {
    let base: Uri = from.parse().ok()?;
    let origin = format!("{}://{}", base.scheme_str()?, base.authority()?);
    if to.starts_with('/') && !to.starts_with("//") {
        return Some(format!("{origin}{to}"));
    }
    let there: Uri = to.parse().ok()?;
    let same = |a: Option<&str>, b: Option<&str>| a.is_some() && a == b;
    (same(there.scheme_str(), base.scheme_str()) && port(&there) == port(&base) && same(host(&there), host(&base)))
        .then(|| to.to_owned())
}

fn host(uri: &Uri) -> Option<&str> {
    uri.host()
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

/// An address an upstream may be added with.
///
/// # Errors
/// What is expected instead.
pub fn address(text: &str) -> Result<String, String> {
    let wrong = || "not an address, write https://agent.example or with a path".to_owned();
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let host = url.authority().filter(|host| !host.host().is_empty() && !host.as_str().contains('@'));
    match (url.scheme_str(), host) {
        (Some("http" | "https"), Some(_)) if !text.contains('#') => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_stays_within_its_origin() {
        let from = "https://a.example/x?y";
        for (to, expect) in [
            ("/z", Some("https://a.example/z")),
            ("https://a.example/z", Some("https://a.example/z")),
            ("https://a.example:443/z", Some("https://a.example:443/z")),
            ("http://a.example/z", None),
            ("https://a.example:444/z", None),
            ("https://b.example/z", None),
            ("https://a.example@b.example/z", None),
            ("//b.example/z", None),
            ("", None),
        ] {
            assert_eq!(within(from, to).as_deref(), expect, "{to}");
        }
    }

    #[test]
    fn the_operators_headers_are_read_and_never_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("h");
        std::fs::write(&file, "# ours\nAuthorization: Bearer s3cret\n\nX-A: b: c\n").unwrap();
        let outbound = Outbound::open(Some(&file)).unwrap();
        assert_eq!(outbound.headers["x-a"], "b: c");
        assert!(!format!("{outbound:?}").contains("s3cret"));
        for bad in ["s3cret", "a b: s3cret", "Host: x", "content-length: 1"] {
            std::fs::write(&file, bad).unwrap();
            let why = Outbound::open(Some(&file)).unwrap_err();
            assert!(why.contains("line 1") && !why.contains("s3cret"), "{why}");
        }
        assert!(Outbound::open(Some(&dir.path().join("none"))).is_err());
    }
}
