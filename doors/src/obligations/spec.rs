//! What a request demands, read out of it: the strict spec, the exact bytes that were signed,
//! the schema past its gate. Everything here is decided off the desk.

use serde_json::{Value, json};
use wikala_certs::{Deed, Proof, SignedDeed};
use wikala_chain::{Digest, PublicKey, RawObject, json as strict};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{DemandedSchema, Owing};
use wikala_witness::schema::{self, Refused};

use crate::answer::{Door, Problem};
use crate::schemas;

/// The extension's URI: in `metadata` on A2A, in `forwardedProps` on AG-UI, on the card.
pub const EXTENSION: &str = "urn:wikala:obligation:1";

/// The longest idempotency key, message id or schema id, bytes.
const ID: usize = 256;

/// The message that demands.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The thread's id, ours: it stands in the signed bytes.
    pub thread: &'a ThreadId,
    /// `post` or `structured_request`.
    pub kind: &'a str,
    /// Its own id.
    pub message_id: &'a str,
    /// Who it speaks for.
    pub role: &'a str,
    /// What it says, JSON text.
    pub parts: &'a str,
}

/// Terms that a question states in its own words, JSON text each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stated<'a> {
    /// `expiresAt`: until when.
    pub deadline: Option<&'a str>,
    /// `responseSchema`: what the answer must fit.
    pub schema: Option<&'a str>,
}

/// Reads `{v, obligation, act, idempotency_key?}`, JSON text, of a message.
///
/// # Errors
/// The codes of the spec, the schema's gate and the signature.
pub async fn read(extension: &str, asked: Asked<'_>, stated: Stated<'_>) -> Result<Owing, Problem> {
    let outer = closed(extension, "obligation", &["v", "obligation", "act", "idempotency_key"])?;
    if outer.get("v").is_none_or(|raw| !matches!(raw.get(), "1" | "1.0")) {
        return Err(unknown("obligation: v is not 1, the version spoken here"));
    }
    let raw = |name: &str| outer.get(name).map(|raw| raw.get()).filter(|raw| *raw != "null");
    let spec = raw("obligation").ok_or_else(|| malformed("obligation: missing, send the spec"))?;
    let proof = Proof::parse(raw("act").ok_or_else(|| malformed("act: missing, sign wikala-obligation-create"))?)?;
    let idempotency_key = match raw("idempotency_key") {
        None => asked.message_id.to_owned(),
        Some(raw) => id(raw, "idempotency_key")?,
    };
    if asked.message_id.is_empty() || asked.message_id.len() > ID {
        return Err(malformed(format!("messageId: 1 to {ID} bytes, shorten it")));
    }
    let message_id = asked.message_id.to_owned();
    let payload = request(asked, spec)?;
    let deed = Deed::Create { thread: asked.thread.as_str().to_owned(), request: Digest::of(payload.as_bytes()) };
    // Before a stranger's schema is looked at: nobody makes us compile what nobody signed.
    let deed = SignedDeed::verify(&proof, deed)?;
    let Terms { responsible, deadline_at, schema, auto_expire } = Terms::read(spec, &message_id, stated).await?;
    Ok(Owing { deed, message_id, idempotency_key, payload, responsible, deadline_at, schema, auto_expire })
}

/// The exact request: canonical JSON of `{v, thread, kind, messageId, role, parts, obligation}`.
/// Its SHA-256 is what the author signs, so the demand cannot be taken from the words.
///
/// # Errors
/// `body-malformed` for what cannot be digested exactly.
pub fn request(asked: Asked<'_>, spec: &str) -> Result<String, Problem> {
    let value = |raw: &str, place: &str| -> Result<Value, Problem> {
        serde_json::from_str(raw).map_err(|_| malformed(format!("{place}: no JSON")))
    };
    canonical(&json!({
        "v": 1,
        "thread": asked.thread.as_str(),
        "kind": asked.kind,
        "messageId": asked.message_id,
        "role": asked.role,
        "parts": value(asked.parts, "parts")?,
        "obligation": value(spec, "obligation")?,
    }))
}

/// Canonical JSON (RFC 8785) of what every reader reads alike.
///
/// # Errors
/// `body-malformed` for an integer beyond 2^53-1.
pub fn canonical(value: &Value) -> Result<String, Problem> {
    wikala_chain::canonical(value).map_err(|inexact| malformed(format!("request: {inexact}")))
}

/// The terms of a demand.
struct Terms {
    responsible: Option<PublicKey>,
    deadline_at: Option<u64>,
    schema: Option<DemandedSchema>,
    auto_expire: bool,
}

impl Terms {
    /// What the question states itself is not said a second time, or two terms could differ.
    async fn read(spec: &str, message_id: &str, stated: Stated<'_>) -> Result<Terms, Problem> {
        const KNOWN: [&str; 6] =
            ["response_required", "responsible", "deadline_at", "response_schema_id", "response_schema", "auto_expire"];
        let members = closed(spec, "obligation", &KNOWN)?;
        let raw = |name: &str| members.get(name).map(|raw| raw.get()).filter(|raw| *raw != "null");
        for (name, stated) in [("deadline_at", stated.deadline), ("response_schema", stated.schema)] {
            if stated.is_some() && raw(name).is_some() {
                return Err(malformed(format!("{name}: the question states it itself, leave it out here")));
            }
        }
        if raw("response_required").is_some_and(|raw| raw != "true") {
            let sentence = "response_required: not true, leave the obligation out where no answer is owed";
            return Err(Problem::door(Door::ResponseRequiredMustBeTrue, sentence));
        }
        let responsible = raw("responsible").map(|raw| {
            let key = strict::string(raw).and_then(|text| PublicKey::from_hex(&text).ok());
            key.ok_or_else(|| malformed("responsible: not a key, 64 lower-case hex"))
        });
        let deadline_at = raw("deadline_at").or(stated.deadline).map(|raw| {
            let text = strict::string(raw).ok_or_else(|| malformed("deadline_at: not a text, send RFC 3339"))?;
            deadline(&text)
        });
        let auto_expire = match raw("auto_expire") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(malformed("auto_expire: neither true nor false")),
        };
        let schema = match (raw("response_schema_id"), raw("response_schema").or(stated.schema)) {
            (None, None) => None,
            // A question's own schema has no name but the question's.
            (None, Some(schema)) if stated.schema.is_some() => Some(demanded(message_id.to_owned(), schema).await?),
            (Some(name), Some(schema)) => Some(demanded(id(name, "response_schema_id")?, schema).await?),
            _ => {
                let sentence = "response_schema: a schema and its id come together, send both or neither";
                return Err(Problem::door(Door::SchemaPairIncomplete, sentence));
            }
        };
        Ok(Terms { responsible: responsible.transpose()?, deadline_at: deadline_at.transpose()?, schema, auto_expire })
    }
}

/// Compiled off the async threads: it is a stranger's work to do.
async fn demanded(id: String, schema: &str) -> Result<DemandedSchema, Problem> {
    let schema = schema.to_owned();
    let judged = schemas::aside(move || gated(&schema)).await;
    let text =
        judged.ok_or_else(|| Problem::door(Door::CannotRecord, "schema: could not be looked at, try again"))??;
    Ok(DemandedSchema { id, text })
}

/// The canonical text of a schema that passes the gate.
///
/// # Errors
/// The gate's codes; `body-malformed` for an integer beyond 2^53-1.
pub fn gated(schema: &str) -> Result<String, Problem> {
    // Before it is made canonical, which would settle on one of two equal names.
    strict::check(schema).map_err(|_| refused(Refused::Invalid))?;
    let value: Value = serde_json::from_str(schema).map_err(|_| refused(Refused::Invalid))?;
    let text = canonical(&value)?;
    // Not kept: whoever brings it may not be entitled to anything here.
    schema::AcceptedSchema::accept(&text).map_err(refused)?;
    Ok(text)
}

fn refused(why: Refused) -> Problem {
    let (code, fact) = match why {
        Refused::TooLarge => (Door::SchemaTooLarge, "more than 65536 bytes of canonical JSON, send a smaller one"),
        Refused::Invalid => (Door::SchemaInvalid, "no JSON Schema 2020-12, an object is expected"),
        Refused::ExternalReference => (Door::SchemaExternalReference, "points out of itself, only #/… is followed"),
        Refused::Dialect => (Door::SchemaDialect, "names another dialect, leave $schema out or name 2020-12"),
        Refused::InPlaceCycle => (Door::SchemaInPlaceCycle, "applies itself to the same place again, descend first"),
        Refused::TooCostly => (Door::SchemaTooCostly, "would cost too much to apply, make it simpler"),
        Refused::Pattern => (Door::SchemaPatternRefused, "a pattern needs more than a linear engine, simplify it"),
    };
    Problem::door(code, format!("response_schema: {fact}"))
}

/// RFC 3339 with its zone, as whole Unix seconds.
fn deadline(text: &str) -> Result<u64, Problem> {
    let zoneless = || {
        let sentence = "deadline_at: without a time zone, end it with Z or an offset as +03:00";
        Problem::door(Door::DeadlineNotTimezoneAware, sentence)
    };
    let wrong = || malformed("deadline_at: not RFC 3339, send 2027-01-15T08:00:00Z");
    let (local, offset_s) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let at = text.len().checked_sub(6).filter(|at| text.is_char_boundary(*at)).ok_or_else(wrong)?;
            let (local, zone) = text.split_at(at);
            let sign = match zone.as_bytes()[0] {
                b'+' => 1,
                b'-' => -1,
                _ => return Err(zoneless()),
            };
            let (hours, minutes) = zone[1..].split_once(':').ok_or_else(zoneless)?;
            let number = |text: &str, below: i64| {
                let plain = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
                text.parse::<i64>().ok().filter(|n| plain && *n < below)
            };
            let (hours, minutes) = number(hours, 24).zip(number(minutes, 60)).ok_or_else(wrong)?;
            (local, sign * (hours * 3600 + minutes * 60))
        }
    };
    let at = humantime::parse_rfc3339(&format!("{local}Z")).map_err(|_| wrong())?;
    let at = at.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong())?.as_secs();
    i64::try_from(at).ok().and_then(|at| u64::try_from(at - offset_s).ok()).ok_or_else(wrong)
}

/// An object of known members alone.
pub(crate) fn closed(raw: &str, place: &str, known: &[&str]) -> Result<RawObject, Problem> {
    if !raw.trim_start().starts_with('{') {
        return Err(malformed(format!("{place}: not an object")));
    }
    let members = RawObject::parse(raw)?;
    if let Some((name, _)) = members.iter().find(|(name, _)| !known.contains(name)) {
        return Err(unknown(format!("{place}: {name:?} is not known here, known are {}", known.join(", "))));
    }
    Ok(members)
}

fn id(raw: &str, place: &str) -> Result<String, Problem> {
    strict::string(raw)
        .filter(|text| !text.is_empty() && text.len() <= ID)
        .ok_or_else(|| malformed(format!("{place}: not a text of 1 to {ID} bytes")))
}

fn unknown(sentence: impl Into<String>) -> Problem {
    Problem::door(Door::UnknownField, sentence)
}

fn malformed(sentence: impl Into<String>) -> Problem {
    Problem::door(Door::BodyMalformed, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_has_a_zone_and_is_one_instant_in_all_of_them() {
        let at = |text: &str| deadline(text).map_err(|problem| problem.code.as_str());
        assert_eq!(at("2027-01-15T08:00:00Z"), Ok(1_800_000_000));
        assert_eq!(at("2027-01-15T11:00:00+03:00"), Ok(1_800_000_000));
        assert_eq!(at("2027-01-15T02:30:00.999-05:30"), Ok(1_800_000_000));
        assert_eq!(at("2027-01-15T08:00:00"), Err("deadline-not-timezone-aware"));
        for wrong in ["", "tomorrow", "Z", "2027-13-15T08:00:00Z", "2027-01-15T08:00:00+25:00", "\u{e9}\u{e9}\u{e9}"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_schema_that_says_a_thing_twice_is_refused_before_one_of_the_two_is_gone() {
        let of = |text: &str| gated(text).map_err(|problem| problem.code.as_str());
        assert_eq!(of("{ \"type\" : \"string\" }"), Ok("{\"type\":\"string\"}".to_owned()));
        assert_eq!(of("{\"type\":\"string\",\"type\":\"number\"}"), Err("schema-invalid"));
        assert_eq!(of("{\"maximum\":9007199254740992}"), Err("body-malformed"));
    }

    #[test]
    fn a_request_is_digested_exactly_or_not_at_all() {
        let thread = ThreadId::parse("thread_000000000000000000000001").unwrap();
        let of = |parts: &str| {
            let asked = Asked { thread: &thread, kind: "post", message_id: "m", role: "ROLE_USER", parts };
            request(asked, "{\"response_required\":true}").map_err(|problem| problem.code.as_str())
        };
        assert_eq!(of("[{\"n\":1}]"), of("[ { \"n\" : 1.0 } ]"), "one number to JSON");
        assert_eq!(of("[{\"b\":1,\"a\":2}]"), of("[{\"a\":2,\"b\":1}]"));
        assert_ne!(of("[{\"n\":1}]"), of("[{\"n\":\"1\"}]"));
        assert_eq!(of("[9007199254740992]"), Err("body-malformed"));
        assert_eq!(of("[-9007199254740993]"), Err("body-malformed"));
        assert_eq!(
            of("[]").unwrap(),
            "{\"kind\":\"post\",\"messageId\":\"m\",\"obligation\":{\"response_required\":true},\"parts\":[],\
             \"role\":\"ROLE_USER\",\"thread\":\"thread_000000000000000000000001\",\"v\":1}"
        );
    }
}
