//! Our own HTTP client, for the command line, the provider and the demo: JSON in and
//! out, a stream of events, requests signed by RFC 9421. hyper and rustls underneath.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use wikala_chain::{SigningKey, nonce};

use crate::presenter;

mod events;

pub use events::Event;

/// The largest answer read, bytes.
const ANSWER: usize = 32 * 1024 * 1024;
/// How long reaching the other side may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a whole answer may take. Streams may take longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client. Cheap to clone, shares its connections.
#[derive(Clone)]
pub struct Client(hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

/// Signs requests with a key, as of a moment.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    /// The key.
    pub key: &'a SigningKey,
    /// Unix seconds.
    pub at_s: u64,
}

impl Client {
    /// A client that trusts the machine's certificate authorities.
    #[must_use]
    pub fn new() -> Self {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        let https = hyper_rustls::HttpsConnectorBuilder::new();
        let connector = match https.with_native_roots() {
            Ok(builder) => builder.https_or_http().enable_http1().wrap_connector(plain),
            // No authorities on this machine: https to anybody will be refused, http works.
            Err(_) => hyper_rustls::HttpsConnectorBuilder::new()
                .with_tls_config(
                    rustls::ClientConfig::builder()
                        .with_root_certificates(rustls::RootCertStore::empty())
                        .with_no_client_auth(),
                )
                .https_or_http()
                .enable_http1()
                .wrap_connector(plain),
        };
        Client(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector))
    }

    /// One request, answered as a stream of bytes.
    ///
    /// # Errors
    /// One sentence: what could not be reached, and why.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<Vec<u8>>,
        headers: &[(&str, &str)],
        signer: Option<Signer<'_>>,
    ) -> Result<(StatusCode, axum::http::HeaderMap, Incoming), String> {
        self.request(method, url, body, headers, signer)
            .await
            .map_err(|unsent| format!("{url}: not reached ({}), is a witness serving there?", unsent.why))
    }

    /// As [`Client::send`], and says whether anything of the request can have left.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(
        &self,
        method: Method,
        url: &str,
        body: Option<Vec<u8>>,
        headers: &[(&str, &str)],
        signer: Option<Signer<'_>>,
    ) -> Result<(StatusCode, axum::http::HeaderMap, Incoming), Unsent> {
        let unsent = |why: String| Unsent { why, never_left: true };
        let uri: Uri = url.parse().map_err(|_| unsent("not a URL".to_owned()))?;
        let target = target_uri(&uri).ok_or_else(|| unsent("not a URL, begin with http:// or https://".to_owned()))?;
        let mut request = Request::builder().method(&method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(signer) = signer {
            let signed = presenter::sign(signer.key, method.as_str(), &target, body.as_deref(), signer.at_s, &nonce());
            for (name, value) in signed {
                request = request.header(name, value);
            }
        }
        if body.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request =
                request.header(HeaderName::from_static("content-type"), HeaderValue::from_static("application/json"));
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| unsent(error.to_string()))?;
        let response = self
            .0
            .request(request)
            .await
            .map_err(|error| Unsent { why: root(&error).to_string(), never_left: error.is_connect() })?;
        let (parts, body) = response.into_parts();
        Ok((parts.status, parts.headers, body))
    }

    /// One request, answered whole: its status, and its JSON if that is what came. An
    /// empty answer is null.
    ///
    /// # Errors
    /// As [`Client::send`]; an answer that breaks off, has no end or does not come.
    pub async fn answer(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
        signer: Option<Signer<'_>>,
    ) -> Result<(StatusCode, Option<Value>), String> {
        let body = body.map(|value| value.to_string().into_bytes());
        let whole = async {
            let (status, _, answer) = self.send(method, url, body, headers, signer).await?;
            let bytes =
                Limited::new(answer, ANSWER).collect().await.map_err(|error| format!("{url}: {error}"))?.to_bytes();
            let value = if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice(&bytes).ok() };
            Ok((status, value))
        };
        tokio::time::timeout(PATIENCE, whole).await.unwrap_or_else(|_| Err(format!("{url}: no answer in {PATIENCE:?}")))
    }

    /// One request, answered as JSON. An empty answer is null.
    ///
    /// # Errors
    /// As [`Client::answer`]; an answer that is not JSON.
    pub async fn json(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
        signer: Option<Signer<'_>>,
    ) -> Result<(StatusCode, Value), String> {
        let (status, value) = self.answer(method, url, body, headers, signer).await?;
        let value = value.ok_or_else(|| format!("{url}: answered {}, and no JSON", status.as_u16()))?;
        Ok((status, value))
    }

    /// `GET`, as JSON.
    ///
    /// # Errors
    /// As [`Client::json`].
    pub async fn get_json(&self, url: &str) -> Result<(StatusCode, Value), String> {
        self.json(Method::GET, url, None, &[], None).await
    }

    /// `POST` of JSON, as JSON.
    ///
    /// # Errors
    /// As [`Client::json`].
    pub async fn post_json(
        &self,
        url: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<(StatusCode, Value), String> {
        self.json(Method::POST, url, Some(body), headers, None).await
    }

    /// `POST` of JSON answered by events.
    ///
    /// # Errors
    /// As [`Client::send`]; an answer that is no event stream, with its body.
    pub async fn events(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
        signer: Option<Signer<'_>>,
    ) -> Result<Events, String> {
        let body = body.map(|value| value.to_string().into_bytes());
        let (status, received, answer) = self.send(method, url, body, headers, signer).await?;
        let kind = received.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
        if !kind.starts_with("text/event-stream") {
            let bytes =
                Limited::new(answer, ANSWER).collect().await.map_err(|error| format!("{url}: {error}"))?.to_bytes();
            return Err(format!("{url}: answered {status} {}", String::from_utf8_lossy(&bytes)));
        }
        Ok(Events { headers: received, body: answer, reader: events::Reader::up_to(ANSWER) })
    }
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// The cause.
    pub why: String,
    /// No connection was made: nothing of it arrived.
    pub never_left: bool,
}

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    /// The answer's headers.
    pub headers: axum::http::HeaderMap,
    body: Incoming,
    reader: events::Reader,
}

impl Events {
    /// What a body that has begun goes on to say; `event` is the longest one read, bytes.
    #[must_use]
    pub fn over(headers: axum::http::HeaderMap, body: Incoming, event: usize) -> Self {
        Events { headers, body, reader: events::Reader::up_to(event) }
    }

    /// The next event; `None` at the end of the stream. Comments are passed over.
    ///
    /// # Errors
    /// The connection broke, or what came is no event stream.
    pub async fn next(&mut self) -> Result<Option<Event>, String> {
        self.next_within(Duration::MAX).await
    }

    /// As [`Events::next`], of a peer that may be silent for so long at a time. A comment
    /// is a sign of life too.
    ///
    /// # Errors
    /// As [`Events::next`], and the silence.
    pub async fn next_within(&mut self, silence: Duration) -> Result<Option<Event>, String> {
        loop {
            if let Some(event) = self.reader.next()? {
                return Ok(Some(event));
            }
            let heard = tokio::time::timeout(silence, self.body.frame()).await;
            match heard.map_err(|_| format!("stream: nothing for {} s", silence.as_secs()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(format!("stream: broke off, {error}")),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.reader.push(bytes);
                    }
                }
            }
        }
    }
}

/// The cause at the bottom: the layers above it only say that they failed.
fn root(error: &dyn std::error::Error) -> &dyn std::error::Error {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

/// What a request to this URL has as its `@target-uri`, as the one who receives it sees
/// it: an empty path is `/`, a fragment is not sent.
fn target_uri(uri: &Uri) -> Option<String> {
    // Displayed as hyper writes it into the request line, with the `/` a bare query lacks.
    let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    Some(format!("{}://{}{path}", uri.scheme_str()?, uri.authority()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_what_arrives() {
        for (url, target) in [
            ("http://127.0.0.1:7420", Some("http://127.0.0.1:7420/")),
            ("https://w.example/a?b=c#d", Some("https://w.example/a?b=c")),
            ("http://w.example?b", Some("http://w.example/?b")),
            ("/a", None),
        ] {
            assert_eq!(target_uri(&url.parse().unwrap()).as_deref(), target, "{url}");
        }
    }
}
