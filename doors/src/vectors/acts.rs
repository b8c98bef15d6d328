//! Acts: a proof, the run it is for, the authority set of that run, and a moment.
//! Whether an act was spent is the record's question and has no case here.

use serde_json::{Value, json};
use wikala_certs::{Act, ActError, AuthoritySet, CertError, Certificate, Moment, Proof, SignedAct};
use wikala_chain::PublicKey;

use super::case::{Case, no, number, ok, text, with};
use super::cast::{A, D, H, NONCE, NOW, P, Party, RUN, S, X, malleated, sha256};
use super::certificates::certificate;

/// Shape, signatures, certificate expiry, authority, freshness: the order of all acts.
pub(super) fn replay(inputs: &Value) -> Value {
    let verdict = match text(inputs, "act") {
        "resolve" => judge(inputs, SignedAct::resolve),
        "cancel" => judge(inputs, SignedAct::cancel),
        _ => judge(inputs, |proof, run| {
            let asks: Vec<&str> = inputs["asks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            SignedAct::answer(proof, run, &asks, text(inputs, "answer").as_bytes())
        }),
    };
    verdict.unwrap_or_else(|code| no(&code))
}

fn judge<A: Act>(
    inputs: &Value,
    verify: impl Fn(&Proof, &str) -> Result<SignedAct<A>, ActError>,
) -> Result<Value, String> {
    let proof = Proof::parse(text(inputs, "proof")).map_err(|error| error.code().to_owned())?;
    let certificate = inputs["certificate"].as_str().map(Certificate::parse).transpose();
    let certificate = certificate.and_then(|certificate| certificate.map(Certificate::verify).transpose());
    let certificate = certificate.map_err(|error| error.code().to_owned())?;
    let act = verify(&proof, text(inputs, "run")).map_err(|error| error.code().to_owned())?;
    let now = Moment::from_secs(number(inputs, "now"));
    let acting = certificate.as_ref().map(|certificate| certificate.live(now)).transpose();
    let acting = acting.map_err(|error| error.code().to_owned())?;
    if let Some(acting) = acting.filter(|acting| acting.delegate() != act.signer()) {
        return Err(CertError::not_signer(&act.signer(), &acting.delegate()).code().to_owned());
    }
    let set = match inputs["authorities"].as_array() {
        None => AuthoritySet::open(),
        Some(keys) => AuthoritySet::of(keys.iter().filter_map(|key| PublicKey::from_hex(key.as_str()?).ok())),
    };
    let standing = act.stand(&set, acting.as_ref()).map_err(|error| error.code().to_owned())?;
    let authorized = standing.fresh(now).map_err(|error| error.code().to_owned())?;
    Ok(ok(json!({
        "authority": authorized.authority().to_hex(),
        "signer": authorized.signer().to_hex(),
        "digest": authorized.digest().to_hex(),
    })))
}

fn proof(signer: Party, bytes: &str) -> Value {
    format!(r#"{{"publicKey":"{}","timestamp":{NOW},"signature":"{}"}}"#, signer.hex(), signer.sign(bytes)).into()
}

fn granted(authority: Party, signer: Party, bytes: &str) -> Value {
    ok(json!({ "authority": authority.hex(), "signer": signer.hex(), "digest": sha256(bytes) }))
}

fn answer_bytes(run: &str, ask: &str, answer: &str) -> String {
    let asks = sha256(&format!("\0\0\0\x05{ask}"));
    format!("wikala-answer:{run}:{asks}:{}:{NOW}", sha256(answer))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = signatures();
    cases.extend(authorities());
    cases
}

/// What each act signs, and what it does not.
fn signatures() -> Vec<Case> {
    let (resolve, cancel) = (format!("funduq-resolve:{RUN}:{NOW}"), format!("funduq-cancel:{RUN}:{NOW}"));
    let answer = answer_bytes(RUN, "ask-1", "yes");
    let keys = json!([H.hex(), P.hex()]);
    let plain = json!({ "act": "resolve", "run": RUN, "proof": proof(H, &resolve), "authorities": keys, "now": NOW });
    let stop = with(&plain, json!({ "act": "cancel", "proof": proof(H, &cancel) }));
    let bound =
        with(&plain, json!({ "act": "answer", "proof": proof(H, &answer), "asks": ["ask-1"], "answer": "yes" }));
    let other_run = "run_2c26b46b68ffc68ff99b453d";
    let of = |text: &Value| text.as_str().unwrap_or_default().to_owned();
    let signed = H.sign(&resolve);
    let edit = |from: &str, to: &str| json!({ "proof": of(&plain["proof"]).replace(from, to) });

    let mut cases = vec![
        Case::new("resolve", "the head answers its paused run", plain.clone(), granted(H, H, &resolve)),
        Case::new("cancel", "the head stops its run", stop.clone(), granted(H, H, &cancel)),
        Case::new("answer", "bound to the ask and the answer", bound.clone(), granted(H, H, &answer)),
        Case::new(
            "resolve_point_zero",
            "a timestamp that came as N.0 is signed as N",
            with(&plain, edit(&format!(":{NOW},"), &format!(":{NOW}.0,"))),
            granted(H, H, &resolve),
        ),
    ];
    for (name, why, base, changes, code) in [
        (
            "resolve_as_cancel",
            "an answer is never spent as a stop",
            &stop,
            json!({ "proof": plain["proof"] }),
            "act-signature",
        ),
        (
            "cancel_as_resolve",
            "a stop is never spent as an answer",
            &plain,
            json!({ "proof": stop["proof"] }),
            "act-signature",
        ),
        (
            "resolve_as_answer",
            "an act that is not bound does not stand for one that is",
            &bound,
            json!({ "proof": plain["proof"] }),
            "act-signature",
        ),
        ("answer_as_resolve", "nor the other way round", &plain, json!({ "proof": bound["proof"] }), "act-signature"),
        ("resolve_other_run", "a run id is in the signed bytes", &plain, json!({ "run": other_run }), "act-signature"),
        ("cancel_other_run", "a run id is in the signed bytes", &stop, json!({ "run": other_run }), "act-signature"),
        ("answer_other_run", "a run id is in the signed bytes", &bound, json!({ "run": other_run }), "act-signature"),
        ("answer_other_asks", "the asks are bound", &bound, json!({ "asks": ["ask-2"] }), "act-signature"),
        ("answer_more_asks", "all asks are bound", &bound, json!({ "asks": ["ask-1", "ask-2"] }), "act-signature"),
        ("answer_no_asks", "all asks are bound", &bound, json!({ "asks": [] }), "act-signature"),
        (
            "answer_exchanged",
            "whoever carries it cannot swap the answer",
            &bound,
            json!({ "answer": "no" }),
            "act-signature",
        ),
        (
            "answer_with_space",
            "the answer is bound byte for byte",
            &bound,
            json!({ "answer": "yes " }),
            "act-signature",
        ),
        (
            "answer_other_form",
            "bytes, not meaning: a JSON text is another answer",
            &bound,
            json!({ "answer": "\"yes\"" }),
            "act-signature",
        ),
        ("resolve_other_key", "X claims to be H", &plain, edit(&signed, &X.sign(&resolve)), "act-signature"),
        (
            "resolve_other_time",
            "the time is in the signed bytes: an old act cannot be freshened",
            &plain,
            edit(&format!(":{NOW},"), &format!(":{},", NOW + 1)),
            "act-signature",
        ),
        (
            "resolve_malleated",
            "S + L: the signature of an act has one spelling",
            &plain,
            edit(&signed, &malleated(&signed)),
            "act-signature",
        ),
        ("resolve_zero_signature", "64 zeros", &plain, edit(&signed, &"0".repeat(128)), "act-signature"),
        (
            "resolve_with_nonce",
            "an act signs no nonce: anyone could have put it there",
            &plain,
            edit("}", &format!(",\"nonce\":\"{NONCE}\"}}")),
            "act-signature",
        ),
        (
            "resolve_malformed",
            "shapes are checked before signatures",
            &plain,
            json!({ "proof": "{}" }),
            "proof-malformed",
        ),
        (
            "resolve_trailing_colon",
            "a payload ends where it ends",
            &plain,
            json!({ "proof": proof(H, &format!("{resolve}:")) }),
            "act-signature",
        ),
        (
            "resolve_line_break",
            "a payload ends where it ends",
            &plain,
            json!({ "proof": proof(H, &format!("{resolve}\n")) }),
            "act-signature",
        ),
        (
            "resolve_signed_digest",
            "the bytes are signed, not their digest",
            &plain,
            json!({ "proof": proof(H, &sha256(&resolve)) }),
            "act-signature",
        ),
    ] {
        cases.push(Case::new(name, why, with(base, changes), no(code)));
    }
    cases
}

/// In whose name, and when.
fn authorities() -> Vec<Case> {
    let resolve = format!("funduq-resolve:{RUN}:{NOW}");
    let by = |signer: Party, keys: &[Party]| {
        let keys: Vec<_> = keys.iter().map(|key| key.hex()).collect();
        json!({ "act": "resolve", "run": RUN, "proof": proof(signer, &resolve), "authorities": keys, "now": NOW })
    };
    let cert = |from, to, until| json!({ "certificate": certificate(from, to, until, true) });
    let late = json!({ "now": NOW + 61 });
    let open = with(&by(X, &[]), json!({ "authorities": null }));
    vec![
        Case::new("provider_resolves", "the provider's own key is in the set", by(P, &[H, P]), granted(P, P, &resolve)),
        Case::new(
            "delegate_resolves",
            "a session key in its authority's name",
            with(&by(S, &[D, P]), cert(D, S, NOW + 3600)),
            granted(D, S, &resolve),
        ),
        Case::new(
            "delegate_in_the_set",
            "a raw key in the set answers as itself, a certificate takes nothing away",
            with(&by(S, &[S]), cert(D, S, NOW + 3600)),
            granted(S, S, &resolve),
        ),
        Case::new(
            "delegate_not_accepted",
            "beside an act a certificate counts for that act, the signature is the consent",
            with(&by(S, &[D, P]), json!({ "certificate": certificate(D, S, NOW + 3600, false) })),
            granted(D, S, &resolve),
        ),
        Case::new(
            "open_set",
            "no head at all: whoever knows the run may answer",
            open.clone(),
            granted(X, X, &resolve),
        ),
        Case::new(
            "open_set_delegate",
            "on an open set the authority behind a delegate is named",
            with(&with(&by(S, &[]), json!({ "authorities": null })), cert(D, S, NOW + 3600)),
            granted(D, S, &resolve),
        ),
        Case::new(
            "60_s_old",
            "the last second of the window",
            with(&by(H, &[H]), json!({ "now": NOW + 60 })),
            granted(H, H, &resolve),
        ),
        Case::new(
            "60_s_ahead",
            "the first second of the window",
            with(&by(H, &[H]), json!({ "now": NOW - 60 })),
            granted(H, H, &resolve),
        ),
        Case::new("61_s_old", "stale", with(&by(H, &[H]), late.clone()), no("act-stale")),
        Case::new("61_s_ahead", "early", with(&by(H, &[H]), json!({ "now": NOW - 61 })), no("act-stale")),
        Case::new("open_set_stale", "an open set has a window too", with(&open, late.clone()), no("act-stale")),
        Case::new("stranger", "a valid signature of nobody in particular", by(X, &[H, P]), no("not-an-authority")),
        Case::new(
            "other_party_of_the_chain",
            "to have touched the work is no right to answer for it",
            by(A, &[H, P]),
            no("not-an-authority"),
        ),
        Case::new(
            "empty_set",
            "nobody is in a set without keys, which is not an open one",
            by(H, &[]),
            no("not-an-authority"),
        ),
        Case::new(
            "stranger_stale",
            "authority before freshness: an outsider learns nothing of the time",
            with(&by(X, &[H]), late),
            no("not-an-authority"),
        ),
        Case::new("delegate_without_certificate", "a session key alone is nobody", by(S, &[D]), no("not-an-authority")),
        Case::new(
            "delegate_of_another",
            "acting for X opens nothing of D's",
            with(&by(S, &[D]), cert(X, S, NOW + 3600)),
            no("not-an-authority"),
        ),
        Case::new(
            "authority_of_its_delegate",
            "a delegate acts for its authority, never the other way round",
            by(D, &[S]),
            no("not-an-authority"),
        ),
        Case::new(
            "certificate_of_another_delegate",
            "a certificate slipped in beside somebody else's act",
            with(&by(H, &[H]), cert(D, S, NOW + 3600)),
            no("certificate-not-signer"),
        ),
        Case::new(
            "certificate_last_second",
            "live while now <= expiresAt",
            with(&by(S, &[D]), cert(D, S, NOW)),
            granted(D, S, &resolve),
        ),
        Case::new(
            "certificate_expired",
            "one second later",
            with(&by(S, &[D]), cert(D, S, NOW - 1)),
            no("certificate-expired"),
        ),
        Case::new(
            "certificate_expired_stranger",
            "expiry before authority",
            with(&by(S, &[H]), cert(D, S, NOW - 1)),
            no("certificate-expired"),
        ),
        Case::new(
            "certificate_malformed",
            "shapes are checked before anything is believed",
            with(&by(S, &[D]), json!({ "certificate": "{}" })),
            no("certificate-malformed"),
        ),
    ]
}
