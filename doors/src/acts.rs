//! Our own routes for acts: answer a paused run, stop a run, record a certificate.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;
use serde_json::value::RawValue;
use wikala_certs::{Cancel, Certificate, Proof, Resolve, Revoked, SignedAct, SignedRevocation};
use wikala_chain::{Digest, PublicKey, RawObject, json as strict};
use wikala_witness::{Answer, Caller, Dialect, ItemKind, Lane, Reply, ReplyItem, Stop, Words};

use crate::answer::{Door, Problem};
use crate::bag::Bag;
use crate::door::{Knock, Route, run_id};
use crate::house::App;

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/runs/{id}/answer", post(answer))
        .route("/v1/runs/{id}/cancel", post(cancel))
        .route("/v1/certificates", post(certificate))
        .route("/v1/revocations", post(revocation))
}

/// A body of ours: a closed set of members, so that a misspelt one is told.
pub(crate) struct Body(RawObject);

impl Body {
    /// Reads a body.
    ///
    /// # Errors
    /// `media-type`, `body-malformed`, `body-duplicate-key`.
    pub(crate) fn read(knock: &Knock, known: &[&str]) -> Result<Body, Problem> {
        let text = knock.json()?;
        let members = RawObject::parse(if text.trim().is_empty() { "{}" } else { text })?;
        if let Some((name, _)) = members.iter().find(|(name, _)| !known.contains(name)) {
            return Err(malformed(format!("body: {name:?} is not a member here, known are {}", known.join(", "))));
        }
        Ok(Body(members))
    }

    /// A member's text; null is absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(RawValue::get).filter(|raw| *raw != "null")
    }

    /// A member's text, null too: it may be what is said.
    pub(crate) fn said(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(RawValue::get)
    }

    /// A member that is a string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        self.get(name)
            .map(|raw| strict::string(raw).ok_or_else(|| malformed(format!("{name}: not a string"))))
            .transpose()
    }
}

pub(crate) fn malformed(sentence: impl Into<String>) -> Problem {
    Problem::door(Door::BodyMalformed, sentence)
}

/// `POST /v1/runs/{id}/answer`: `{"answer", "asks", "form", "resolution"?, "delegation"?}`.
/// The one lane where an act can bind the asks and the answer it is for.
async fn answer(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let body = Body::read(&knock, &["answer", "asks", "form", "resolution", "delegation"])?;
    let text = body.text("answer")?.ok_or_else(|| malformed("answer: missing, send the answer as a string"))?;
    let asks: Vec<String> = match body.get("asks") {
        None => Vec::new(),
        Some(raw) => serde_json::from_str(raw).map_err(|_| malformed("asks: not a list of ids"))?,
    };
    let proof = body.get("resolution").map(Proof::parse).transpose()?;
    let act: Option<SignedAct<Resolve>> = match (body.text("form")?.as_deref(), &proof) {
        (_, None) => None,
        (None | Some("resolve"), Some(proof)) => Some(SignedAct::resolve(proof, run.as_str())?),
        (Some("answer"), Some(proof)) => {
            let ids: Vec<&str> = asks.iter().map(String::as_str).collect();
            Some(SignedAct::answer(proof, run.as_str(), &ids, text.as_bytes())?)
        }
        (Some(_), Some(_)) => return Err(malformed("form: neither \"resolve\" nor \"answer\"")),
    };
    let signer = knock.signer(&app)?;
    let certificate = Bag::of_certificate(body.get("delegation"))?.consented(signer.as_ref());
    let reply = plain_reply(&text, &asks);
    let answer = Answer {
        agent: None,
        run,
        lane: Lane::Direct,
        reply,
        digest: Digest::of(text.as_bytes()),
        act,
        certificate,
        caller: Caller::default(),
        words: Words { dialect: Dialect::Plain, text: strict::quote(&text).into() },
        extensions: Vec::new(),
    };
    crate::schemas::of_answer(&app, &answer.run).await;
    let done = app.desk.ask(move |witness, now| witness.answer(now, answer)).await?;
    let words = json!({
        "runId": done.run.as_str(), "threadId": done.thread.as_str(), "replayed": done.replayed, "after": done.after,
    });
    Ok(axum::Json(words).into_response())
}

/// A text, or JSON text. One item gets the value; for several it is an object with a
/// member an item, or a list of resume entries.
fn plain_reply(text: &str, asks: &[String]) -> Reply {
    let value = if strict::check(text).is_ok() { text.to_owned() } else { strict::quote(text) };
    match asks {
        [] => return Reply { items: Vec::new(), single: Some(value) },
        // The ids an answer names are part of what it says: one that is not open is told.
        [only] => return Reply { items: vec![item(only, Some(&value))], single: None },
        _ => {}
    }
    let mut items = Vec::new();
    if let Ok(members) = RawObject::parse(&value) {
        items.extend(members.iter().map(|(id, payload)| item(id, Some(payload.get()))));
    } else if let Ok(entries) = serde_json::from_str::<Vec<Box<RawValue>>>(&value) {
        for entry in entries.iter().filter_map(|entry| RawObject::parse(entry.get()).ok()) {
            if let Some(id) = entry.get("interruptId").and_then(|raw| strict::string(raw.get())) {
                let abandoned = entry.get("status").is_some_and(|raw| raw.get() == "\"cancelled\"");
                let payload = entry.get("payload").map(RawValue::get).filter(|_| !abandoned);
                items.push(ReplyItem { abandoned, ..item(&id, payload) });
            }
        }
    }
    Reply { items, single: None }
}

fn item(id: &str, payload: Option<&str>) -> ReplyItem {
    ReplyItem { id: id.to_owned(), kind: ItemKind::Interrupt, abandoned: false, payload: payload.map(str::to_owned) }
}

/// `POST /v1/runs/{id}/cancel`: `{"cancel"?, "delegation"?}`.
async fn cancel(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let body =
        if knock.body.is_empty() { Body(RawObject::new()) } else { Body::read(&knock, &["cancel", "delegation"])? };
    let act: Option<SignedAct<Cancel>> = body
        .get("cancel")
        .map(Proof::parse)
        .transpose()?
        .map(|proof| SignedAct::cancel(&proof, run.as_str()))
        .transpose()?;
    let signer = knock.signer(&app)?;
    let certificate = Bag::of_certificate(body.get("delegation"))?.consented(signer.as_ref());
    let stop = Stop { agent: None, run, act, certificate };
    let done = app.desk.ask(move |witness, now| witness.stop(now, stop)).await?;
    let words = json!({
        "runId": done.run.as_str(), "threadId": done.thread.as_str(), "status": done.status.as_str(), "replayed": done.replayed,
    });
    Ok(axum::Json(words).into_response())
}

/// `POST /v1/certificates`: `{"delegation"}`, signed by the delegate (RFC 9421), so
/// that nobody is made a delegate by somebody else.
async fn certificate(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let body = Body::read(&knock, &["delegation"])?;
    let signer = knock.signer(&app)?.ok_or_else(|| {
        Problem::record(wikala_witness::Code::PresenterRequired, "request: unsigned, the delegate signs it (RFC 9421)")
    })?;
    let bag = Bag::of_certificate(body.get("delegation"))?;
    let consented =
        bag.consented(Some(&signer)).ok_or_else(|| malformed("delegation: missing, send the certificate"))?;
    let by_authority = signer.key == consented.certificate.authority() && consented.certificate.accepted();
    if signer.key != consented.certificate.delegate() && !by_authority {
        return Err(Problem::record(
            wikala_witness::Code::CertificateNotSigner,
            format!(
                "request: {} signed it, the delegate {} must",
                signer.key.fingerprint(),
                consented.certificate.delegate().fingerprint()
            ),
        ));
    }
    let words = json!({
        "authority": consented.certificate.authority().to_hex(),
        "certificateId": consented.certificate.id().to_hex(),
        "expiresAt": consented.certificate.expires_at(),
    });
    app.desk
        .ask(move |witness, now| match by_authority {
            true => witness.record_renewed_certificate(now, &consented.certificate, signer.signed),
            false => witness.record_signed_certificate(now, &consented, signer.signed),
        })
        .await?;
    Ok(axum::Json(words).into_response())
}

/// `POST /v1/revocations`: `{"certificate" | "authority", "revocation"}`. From then on what it
/// names counts for no act, no read and no new run; what is bound stays bound.
async fn revocation(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let body = Body::read(&knock, &["certificate", "authority", "revocation"])?;
    let proof = body.get("revocation").ok_or_else(|| malformed("revocation: missing, sign wikala-revoke"))?;
    let proof = Proof::parse(proof)?;
    let (target, certificate) = match (body.get("certificate"), body.text("authority")?) {
        (Some(raw), None) => {
            let certificate = Certificate::parse(raw)?.verify()?;
            (Revoked::Certificate(certificate.id()), Some(certificate))
        }
        (None, Some(key)) => {
            let key = PublicKey::from_hex(&key).map_err(|_| malformed("authority: not a key, 64 lower-case hex"))?;
            (Revoked::Authority(key), None)
        }
        _ => return Err(malformed("revocation: of a certificate or of an authority, send one of the two")),
    };
    let signed = SignedRevocation::verify(&proof, target)?;
    app.desk.ask(move |witness, now| witness.revoke(now, &signed, certificate.as_ref())).await?;
    Ok(axum::Json(json!({ "revoked": true })).into_response())
}
