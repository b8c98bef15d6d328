//! A knock: a request with its body read within bounds, its target and its peer.
//! What every door asks first stands here once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, Uri, header};
use http_body_util::{BodyExt, Limited};
use wikala_chain::{AgentName, Fingerprint, PublicKey};
use wikala_witness::{AgentId, Caller, Code, RunId, ThreadId};

use crate::answer::{Door, Problem};
use crate::bag::Bag;
use crate::house::{App, Gateway};
use crate::presenter::{self, HttpSigner};

/// The largest body read, bytes.
pub const BODY: usize = 4 * 1024 * 1024;
/// How long a body may take to arrive.
pub const BODY_TIME: Duration = Duration::from_secs(60);
/// The header that carries the gateway's secret.
const GATEWAY_SECRET: &str = "wikala-gateway-secret";

/// A request, read.
#[derive(Debug)]
pub struct Knock {
    /// Its method.
    pub method: Method,
    /// Its request-target as received.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Whom limits count: the TCP peer, or whom a proxy in front names.
    pub peer: IpAddr,
    /// The TCP peer.
    pub tcp: IpAddr,
    /// Its body, at most [`BODY`] bytes.
    pub body: Bytes,
}

impl FromRequest<App> for Knock {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        if app.is_closing() && parts.method != Method::GET {
            return Err(Problem::door(Door::ShuttingDown, "house: closing, try again in a moment"));
        }
        let (peer, tcp) = peers(app, &parts.extensions, &parts.headers);
        let body = match tokio::time::timeout(app.settings.body_time, Limited::new(body, BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Problem::door(Door::TooLarge, format!("body: more than {BODY} bytes, send less")));
            }
            Ok(Err(_)) => return Err(Problem::door(Door::BodyMalformed, "body: ended before its end")),
            // A body of one byte a minute would hold a connection's place for ever.
            Err(_) => {
                let sentence = format!("body: did not come within {:?}, send it at once", app.settings.body_time);
                return Err(Problem::door(Door::BodyMalformed, sentence));
            }
        };
        Ok(Knock { method: parts.method, uri: parts.uri, headers: parts.headers, peer, tcp, body })
    }
}

/// What the route names: [`Path`] with a no of ours. A segment that is not UTF-8 once
/// decoded (`%ff`) names nothing here.
#[derive(Debug)]
pub struct Route<T>(pub T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for Route<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let unread = |_| Problem::door(Door::RouteUnknown, "route: not UTF-8, GET /.well-known/wikala.json lists them");
        Path::from_request_parts(parts, state).await.map(|Path(named)| Route(named)).map_err(unread)
    }
}

impl Knock {
    /// The body as text, if it says it is JSON.
    ///
    /// # Errors
    /// `media-type`, `body-malformed`.
    pub fn json(&self) -> Result<&str, Problem> {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            return Err(Problem::door(Door::MediaType, "body: not application/json, set Content-Type"));
        }
        std::str::from_utf8(&self.body).map_err(|_| Problem::door(Door::BodyMalformed, "body: not UTF-8"))
    }

    /// The RFC 9421 signature of this request, verified but not yet fresh.
    ///
    /// # Errors
    /// `presenter-proof` for a signature of ours that does not hold.
    pub fn signer(&self, app: &App) -> Result<Option<HttpSigner>, Problem> {
        let target = app.target_uri(&self.uri);
        presenter::verify(self.method.as_str(), &target, &self.headers, &self.body)
            .map_err(|problem| Problem::record(Code::PresenterProof, problem.to_string()))
    }

    /// Whom a trusted gateway vouches for.
    ///
    /// # Errors
    /// 400 for its header from anybody else.
    pub fn vouched(&self, app: &App) -> Result<Option<PublicKey>, Problem> {
        let Some(gateway) = &app.settings.gateway else { return Ok(None) };
        let mut names = self.headers.get_all(&gateway.header).iter();
        let Some(named) = names.next() else { return Ok(None) };
        let refuse = |why: &str| Problem::door(Door::BodyMalformed, format!("{}: {why}", gateway.header));
        // A gateway that appends where it should replace lets its client name somebody.
        if names.next().is_some() || self.headers.get_all(GATEWAY_SECRET).iter().count() > 1 {
            return Err(refuse("there twice, the gateway must replace what its clients send"));
        }
        if !in_network(self.tcp, gateway) || !self.has_secret(gateway) {
            // Whoever can set this header could be anybody.
            return Err(refuse("not from the trusted gateway, leave it out"));
        }
        let named = named.to_str().map_err(|_| refuse("not a key, 64 lower-case hex"))?;
        PublicKey::from_hex(named).map(Some).map_err(|_| refuse("not a key, 64 lower-case hex"))
    }

    fn has_secret(&self, gateway: &Gateway) -> bool {
        let given = self.headers.get(GATEWAY_SECRET).map_or(&b""[..], |value| value.as_bytes());
        let wanted = gateway.secret.as_bytes();
        // Compares digests, so that time tells nothing about the secret.
        wikala_chain::Digest::of(given) == wikala_chain::Digest::of(wanted) && !wanted.is_empty()
    }

    /// Who stands at an agent's door with this request and its bag.
    ///
    /// # Errors
    /// What the proofs say.
    pub fn caller(&self, app: &App, agent: &AgentId, bag: &Bag) -> Result<Caller, Problem> {
        bag.caller(&app.public_key(), agent, self.signer(app)?, self.vouched(app)?)
    }

    /// The authority that reads; `None`: nobody in particular. Reads may repeat.
    ///
    /// # Errors
    /// `presenter-proof` for a signature that does not hold or is stale.
    pub async fn viewer(&self, app: &App) -> Result<Option<PublicKey>, Problem> {
        let now = app.desk.now();
        let key = match (self.vouched(app)?, self.signer(app)?) {
            (Some(vouched), _) => vouched,
            (None, Some(signer)) => {
                signer.signed.fresh(now)?;
                signer.key
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(app.readers.read(move |reader| reader.viewer(now, key)).await?))
    }

    /// Counts an anonymous run against its address.
    ///
    /// # Errors
    /// `rate-limited`.
    pub fn anonymous_run(&self, app: &App) -> Result<(), Problem> {
        app.limits.anonymous_runs.take(self.peer, app.desk.now().as_secs(), "run")
    }
}

/// Whom limits count, and the TCP peer. Behind a proxy the peer is the proxy for
/// everybody: then the last address of `X-Forwarded-For` counts, which the proxy itself
/// appended; what stands before it is the client's to invent.
pub fn peers(app: &App, extensions: &Extensions, headers: &HeaderMap) -> (IpAddr, IpAddr) {
    let tcp = extensions.get::<ConnectInfo<SocketAddr>>().map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0.ip());
    let forwarded = || {
        let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
        let last = last.rsplit(',').next()?.trim();
        last.parse().ok().or_else(|| last.parse::<SocketAddr>().ok().map(|address| address.ip()))
    };
    let peer = if app.settings.behind_proxy { forwarded().unwrap_or(tcp) } else { tcp };
    (peer, tcp)
}

fn in_network(peer: IpAddr, gateway: &Gateway) -> bool {
    let bits = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32u8),
        IpAddr::V6(v6) => (u128::from(v6), 128u8),
    };
    let ((peer, width), (network, other)) = (bits(peer), bits(gateway.network.0));
    let prefix = gateway.network.1.min(width);
    width == other && (prefix == 0 || (peer ^ network) >> (width - prefix) == 0)
}

/// The agent a path names: by key or by fingerprint.
///
/// # Errors
/// `agent-unknown`, `fingerprint-ambiguous`.
pub async fn agent(app: &App, provider: &str, name: &str) -> Result<AgentId, Problem> {
    let unknown = || Problem::record(Code::AgentUnknown, "agent: not known here, GET /agents lists who is");
    if name.is_empty() || name.len() > 128 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    {
        return Err(unknown());
    }
    let name = AgentName::new(name).map_err(|_| unknown())?;
    let provider = match PublicKey::from_hex(provider) {
        Ok(key) => key,
        Err(_) => {
            let fingerprint = Fingerprint::from_hex(provider).map_err(|_| unknown())?;
            app.readers.read(move |reader| reader.provider(fingerprint)).await?
        }
    };
    Ok(AgentId { provider, name })
}

/// A run id from a path. What is not of our form was never a run.
///
/// # Errors
/// `run-unknown`.
pub fn run_id(text: &str) -> Result<RunId, Problem> {
    RunId::parse(text).ok_or_else(|| Problem::record(Code::RunUnknown, "run: not known here"))
}

/// A thread id from a path.
///
/// # Errors
/// `thread-unknown`.
pub fn thread_id(text: &str) -> Result<ThreadId, Problem> {
    ThreadId::parse(text).ok_or_else(|| Problem::record(Code::ThreadUnknown, "thread: not known here"))
}
