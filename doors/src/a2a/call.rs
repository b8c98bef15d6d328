//! One call, whichever binding it came by: what every method needs is read here, the
//! methods do the rest, and the envelope says how it is written.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use wikala_chain::json;
use wikala_witness::{AgentId, AgentView, RunId, ThreadId};

use super::card::{EXTENSION_INTERJECTION, declared, demanded};
use super::fields::Fields;
use super::refused::Refused;
use super::{send, stream, tasks};
use crate::answer::{A2a, Method};
use crate::bag::URN;
use crate::door::{Knock, agent};
use crate::house::App;
use crate::obligations;

/// The version this door speaks.
const VERSION: &str = "1.0";
/// The header, and the query parameter, that name a version.
pub(super) const VERSION_HEADER: &str = "a2a-version";
/// The header that names extensions, and its name before 1.0.
const EXTENSION_HEADERS: [&str; 2] = ["a2a-extensions", "x-a2a-extensions"];
/// Extensions whose words this door understands.
const EXTENSIONS: [&str; 3] = [URN, EXTENSION_INTERJECTION, obligations::EXTENSION];

/// How an answer is written.
#[derive(Debug, Clone)]
pub(super) enum Envelope {
    /// JSON-RPC: with the request's id, JSON text.
    Rpc(String),
    /// HTTP+JSON: bare.
    Rest,
}

impl Envelope {
    /// A result as one event of a stream, or as a whole body.
    pub(super) fn result(&self, result: &str) -> String {
        match self {
            Envelope::Rpc(id) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
            Envelope::Rest => result.to_owned(),
        }
    }

    /// A no as one event of a stream.
    pub(super) fn refused(&self, refused: &Refused, method: Method) -> String {
        match self {
            Envelope::Rpc(id) => {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", refused.error(method))
            }
            Envelope::Rest => refused.rest(method).1.to_string(),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the protocol's own
pub(super) enum Op {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    /// Any of the four about push notifications.
    Push,
    ExtendedCard,
}

impl Op {
    /// It brings a message, so it has a body.
    pub(super) fn sends(self) -> bool {
        matches!(self, Op::Send | Op::Stream)
    }

    /// By which name a refusal goes.
    pub(super) fn method(self) -> Method {
        if self == Op::Cancel { Method::Cancel } else { Method::Other }
    }
}

/// One call, read as far as every method needs it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) app: App,
    pub(super) knock: Knock,
    pub(super) agent: AgentId,
    pub(super) envelope: Envelope,
    params: Option<String>,
}

/// What a method came to.
pub(super) enum Said {
    /// A result, JSON text, and the run it is about.
    Whole(String, Option<(RunId, ThreadId)>),
    /// A stream that has begun.
    Stream(Response),
}

impl Call {
    /// Reads whom it is for. `params`: JSON text.
    pub(super) async fn to(
        app: App,
        (provider, name): (&str, &str),
        knock: Knock,
        envelope: Envelope,
        params: Option<String>,
    ) -> Result<Call, Refused> {
        let agent = agent(&app, provider, name).await?;
        Ok(Call { app, knock, agent, envelope, params })
    }

    /// The method's parameters.
    pub(super) fn params(&self) -> Result<Fields, Refused> {
        let raw = self.params.as_deref().ok_or_else(|| Refused::field("params", "required"))?;
        Fields::parse(raw, "params")
    }

    /// The parameters as received.
    pub(super) fn raw_params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }

    /// The agent as the roster has it.
    pub(super) async fn view(&self) -> Result<AgentView, Refused> {
        let (agent, now) = (self.agent.clone(), self.app.desk.now());
        Ok(self.app.readers.read(move |reader| reader.agent(&agent, now)).await?)
    }

    /// An agent may answer only those who activate an extension (A2A 1.0 §3.6.2).
    pub(super) fn has_what(&self, view: &AgentView) -> Result<(), Refused> {
        let asked = asked(&self.knock.headers);
        match demanded(view).into_iter().find(|uri| !asked.iter().any(|asked| asked == uri)) {
            None => Ok(()),
            Some(uri) => Err(Refused::protocol(
                A2a::ExtensionSupportRequired,
                format!("extension: this agent requires {uri}, name it in A2A-Extensions"),
            )),
        }
    }

    /// Its sender activated this extension.
    pub(super) fn speaks(&self, extension: &str) -> bool {
        asked(&self.knock.headers).iter().any(|uri| uri == extension)
    }

    /// The extensions asked for that the agent declares: it is told them.
    pub(super) fn activates(&self, view: &AgentView) -> Vec<String> {
        let declared = declared(view);
        let mut asked = asked(&self.knock.headers);
        asked.retain(|uri| declared.contains(uri));
        asked.sort();
        asked.dedup();
        asked
    }

    /// Does what is asked.
    pub(super) async fn perform(&self, op: Op) -> Result<Said, Refused> {
        match op {
            Op::Send => send::send(self).await,
            Op::Stream => stream::send(self).await,
            Op::Get => tasks::get(self).await,
            Op::List => tasks::list(self).await,
            Op::Cancel => tasks::cancel(self).await,
            Op::Subscribe => stream::subscribe(self).await,
            Op::Push => Err(no_push()),
            Op::ExtendedCard => Err(Refused::protocol(
                A2a::UnsupportedOperation,
                "card: there is no extended one, the public card is all",
            )),
        }
    }
}

/// Nobody is called back here.
pub(super) fn no_push() -> Refused {
    Refused::protocol(A2a::PushNotificationNotSupported, "push: not offered here, stream or subscribe instead")
}

/// Says which run a response is about.
pub(super) fn name_run(response: &mut Response, run: &RunId, thread: &ThreadId) {
    // Ids of ours are hex after a prefix: always a header value.
    for (name, id) in [("wikala-run-id", run.as_str()), ("wikala-thread-id", thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// Says which version and which of the extensions asked for are spoken here.
pub(super) fn name_protocol(response: &mut Response, extensions: Option<HeaderValue>) {
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    if let Some(extensions) = extensions {
        response.headers_mut().insert(EXTENSION_HEADERS[0], extensions);
    }
}

/// `A2A-Version`, header or query. Without one a client speaks 0.3 (§3.6), and its
/// method names mean nothing here.
pub(super) fn check_version(knock: &Knock) -> Result<(), Refused> {
    let header = knock.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()).map(str::trim);
    let query = knock.uri.query().unwrap_or("").split('&').filter_map(|pair| pair.split_once('='));
    let query = query.filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER)).map(|(_, value)| value).next();
    let named = [header, query].into_iter().flatten().find(|text| !text.is_empty());
    let given = named.unwrap_or("0.3");
    let mut digits = given.split('.');
    let number = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    // Minor and patch versions add, they do not break.
    if digits.next() == Some("1") && digits.all(number) {
        return Ok(());
    }
    let given = match named {
        Some(given) => format!("{:?} is not spoken here", given.chars().take(16).collect::<String>()),
        None => "none was sent, which means 0.3".to_owned(),
    };
    Err(Refused::protocol(A2a::VersionNotSupported, format!("version: {given}, send A2A-Version: {VERSION}")))
}

/// Every extension a request names.
fn asked(headers: &HeaderMap) -> Vec<String> {
    EXTENSION_HEADERS
        .iter()
        .flat_map(|name| headers.get_all(*name))
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|uri| uri.trim().to_owned())
        .filter(|uri| !uri.is_empty())
        .collect()
}

/// The extensions asked for that are understood: by this door, or by its agent.
pub(super) fn activated(headers: &HeaderMap, view: Option<&AgentView>) -> Option<HeaderValue> {
    let declared = view.map(declared).unwrap_or_default();
    let mut ours = asked(headers);
    ours.retain(|uri| EXTENSIONS.contains(&uri.as_str()) || declared.contains(uri));
    ours.dedup();
    if ours.is_empty() { None } else { HeaderValue::from_str(&ours.join(", ")).ok() }
}

/// A query's parameters as the message they stand for, JSON text. Names in camelCase, as
/// the binding demands, or in snake_case; numbers and truth values are written as such.
///
/// # Errors
/// A name twice.
pub(super) fn from_query(query: &str, more: &[(&str, &str)]) -> Result<String, Refused> {
    let mut members: Vec<(String, String)> = Vec::new();
    let given = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescaped(&name.replace('+', " ")), unescaped(&value.replace('+', " ")))
    });
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    for (name, value) in more.chain(given) {
        if name.eq_ignore_ascii_case(VERSION_HEADER) {
            continue;
        }
        if members.iter().any(|(known, _)| *known == name) {
            return Err(Refused::field(name, "is there twice"));
        }
        let plain = matches!(value.as_str(), "true" | "false");
        members.push((name, if plain { value } else { json::quote(&value) }));
    }
    let members: Vec<String> = members.iter().map(|(name, raw)| format!("{}:{raw}", json::quote(name))).collect();
    Ok(format!("{{{}}}", members.join(",")))
}

/// A path segment or a query value, percent-decoded; what is no escape stays as it is.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads a body that says it is JSON: its media type before anything in it.
pub(super) fn json_body(knock: &Knock) -> Result<&str, Refused> {
    match knock.json() {
        Ok(text) => Ok(text),
        Err(problem) if problem.code == crate::answer::Code::Door(crate::answer::Door::MediaType) => {
            Err(problem.into())
        }
        Err(problem) => Err(Refused::protocol(A2a::Parse, problem.sentence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_the_message_it_stands_for() {
        let read = |query: &str| from_query(query, &[("id", "run_1")]).unwrap();
        assert_eq!(read(""), r#"{"id":"run_1"}"#);
        assert_eq!(
            read("pageSize=10&includeArtifacts=true&contextId=a%2Fb+c&A2A-Version=1.0"),
            r#"{"id":"run_1","pageSize":"10","includeArtifacts":true,"contextId":"a/b c"}"#
        );
        assert!(from_query("a=1&a=2", &[]).is_err() && from_query("id=2", &[("id", "1")]).is_err());
        for text in ["%", "%2", "%zz", "%+1", "a%e9"] {
            let _ = unescaped(text);
        }
        assert_eq!(unescaped("%41%zz%"), "A%zz%");
    }
}
