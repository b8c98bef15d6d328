//! Session certificates and the delegate's consent, with the clock.

use serde_json::{Value, json};
use wikala_certs::{CertError, Certificate, Moment};

use super::case::{Case, no, number, ok, text, with};
use super::cast::{D, H, NOW, Party, S, X, malleated, sha256};

/// Shape, signatures, expiry, whose certificate it is, consent.
pub(super) fn replay(inputs: &Value) -> Value {
    judge(inputs).unwrap_or_else(|error| no(error.code()))
}

fn judge(inputs: &Value) -> Result<Value, CertError> {
    let certificate = Certificate::parse(text(inputs, "certificate"))?.verify()?;
    certificate.live(Moment::from_secs(number(inputs, "now")))?;
    // Who signed hop 0, or the act.
    let signer = text(inputs, "signer");
    if certificate.delegate().to_hex() != signer {
        let signer = wikala_chain::PublicKey::from_hex(signer).unwrap_or(certificate.authority());
        return Err(CertError::not_signer(&signer, &certificate.delegate()));
    }
    if text(inputs, "beside") == "chain" && !certificate.accepted() {
        return Err(CertError::not_accepted(&certificate.delegate()));
    }
    Ok(ok(json!({
        "authority": certificate.authority().to_hex(),
        "delegate": certificate.delegate().to_hex(),
        "expiresAt": certificate.expires_at(),
        "id": certificate.id().to_hex(),
        "accepted": certificate.accepted(),
    })))
}

/// A certificate's text.
pub(super) fn certificate(authority: Party, delegate: Party, until: u64, accepted: bool) -> String {
    let acceptance = delegate.sign(&format!("wikala-accept:{}", id(authority, delegate, until)));
    written(authority, delegate, until, accepted.then_some(acceptance))
}

fn written(authority: Party, delegate: Party, until: u64, acceptance: Option<String>) -> String {
    let (d, s) = (authority.hex(), delegate.hex());
    let signature = authority.sign(&format!("funduq-delegate:{s}:{until}"));
    let acceptance = acceptance.map(|hex| format!(",\"acceptance\":\"{hex}\"")).unwrap_or_default();
    format!(
        "{{\"authorityPublicKey\":\"{d}\",\"delegatePublicKey\":\"{s}\",\"expiresAt\":{until},\"signature\":\"{signature}\"{acceptance}}}"
    )
}

fn id(authority: Party, delegate: Party, until: u64) -> String {
    sha256(&format!("wikala-certificate:{}:{}:{until}", authority.hex(), delegate.hex()))
}

pub(super) fn cases() -> Vec<Case> {
    const T: u64 = NOW + 3600;
    let whole = certificate(D, S, T, true);
    let plain = json!({ "certificate": whole, "beside": "chain", "signer": S.hex(), "now": NOW });
    let granted = |until, accepted| {
        ok(json!({
            "authority": D.hex(), "delegate": S.hex(), "expiresAt": until, "id": id(D, S, until), "accepted": accepted,
        }))
    };
    let bare = certificate(D, S, T, false);
    let instead = |text: String| json!({ "certificate": text });
    let edit = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}"); // a case that changes nothing tests nothing
        instead(whole.replacen(from, to, 1))
    };
    let signature = D.sign(&format!("funduq-delegate:{}:{T}", S.hex()));
    let consent = |by: Party, text: String| instead(written(D, S, T, Some(by.sign(&text))));
    let yes = S.sign(&format!("wikala-accept:{}", id(D, S, T)));
    let number = format!("\"expiresAt\":{T}");

    let mut cases = vec![
        Case::new("accepted", "D lets S act, S consents", plain.clone(), granted(T, true)),
        Case::new(
            "not_accepted_beside_act",
            "beside an act it counts for that act and is not recorded",
            with(&plain, json!({ "certificate": bare, "beside": "act" })),
            granted(T, false),
        ),
        Case::new(
            "accepted_beside_act",
            "consent does no harm there",
            with(&plain, json!({ "beside": "act" })),
            granted(T, true),
        ),
        Case::new("last_second", "live while now <= expiresAt", with(&plain, json!({ "now": T })), granted(T, true)),
        Case::new(
            "point_zero",
            "protobuf SDKs write integers so; the id is of the number",
            with(&plain, edit(&number, &format!("{number}.0"))),
            granted(T, true),
        ),
        Case::new(
            "other_order",
            "order and white space are free",
            with(&plain, instead(reordered(&whole))),
            granted(T, true),
        ),
    ];
    for (name, why, changes, code) in [
        ("one_second_late", "expired", json!({ "now": T + 1 }), "certificate-expired"),
        ("long_expired", "expired", json!({ "now": T + 1_000_000_000 }), "certificate-expired"),
        ("never_live", "expiresAt 0", instead(certificate(D, S, 0, true)), "certificate-expired"),
        (
            "not_accepted",
            "B could sign \"H is my delegate\" and take H's segment",
            instead(bare.clone()),
            "certificate-not-accepted",
        ),
        (
            "for_another_delegate",
            "slipped in beside a chain that S did not begin",
            json!({ "signer": H.hex() }),
            "certificate-not-signer",
        ),
        (
            "authority_as_signer",
            "D signed itself and needs no certificate",
            json!({ "signer": D.hex() }),
            "certificate-not-signer",
        ),
        (
            "theft_of_a_head",
            "the theft of the wire page: X names H its delegate, H did not agree",
            json!({ "certificate": certificate(X, H, T, false), "signer": H.hex() }),
            "certificate-not-accepted",
        ),
        (
            "theft_with_own_consent",
            "X signs H's consent itself",
            json!({ "certificate": written(X, H, T, Some(X.sign(&format!("wikala-accept:{}", id(X, H, T))))), "signer": H.hex() }),
            "certificate-signature",
        ),
        (
            "expired_before_signer",
            "two flaws: expiry is told first",
            json!({ "now": T + 1, "signer": H.hex() }),
            "certificate-expired",
        ),
        (
            "signature_before_expiry",
            "two flaws: signatures are told before the clock is asked",
            json!({ "certificate": edit(&signature, &X.sign("x"))["certificate"], "now": T + 1 }),
            "certificate-signature",
        ),
        (
            "signed_by_other",
            "not by the authority it names",
            edit(&signature, &X.sign(&format!("funduq-delegate:{}:{T}", S.hex()))),
            "certificate-signature",
        ),
        (
            "other_expiry",
            "its time is signed",
            edit(&number, &format!("\"expiresAt\":{}", T + 1)),
            "certificate-signature",
        ),
        ("other_authority", "X puts its own key in D's place", edit(&D.hex(), &X.hex()), "certificate-signature"),
        ("other_delegate", "X puts its own key in S's place", edit(&S.hex(), &X.hex()), "certificate-signature"),
        ("signature_malleated", "S + L", edit(&signature, &malleated(&signature)), "certificate-signature"),
        ("acceptance_malleated", "S + L", edit(&yes, &malleated(&yes)), "certificate-signature"),
        (
            "acceptance_by_authority",
            "a wrong consent is not a missing one",
            consent(D, format!("wikala-accept:{}", id(D, S, T))),
            "certificate-signature",
        ),
        (
            "acceptance_of_another",
            "consent to one certificate is not consent to the next",
            consent(S, format!("wikala-accept:{}", id(D, S, T + 1))),
            "certificate-signature",
        ),
        (
            "acceptance_of_other_authority",
            "consent names the authority",
            consent(S, format!("wikala-accept:{}", id(X, S, T))),
            "certificate-signature",
        ),
        (
            "acceptance_is_signature",
            "D's signature in both places",
            consent(D, format!("funduq-delegate:{}:{T}", S.hex())),
            "certificate-signature",
        ),
        (
            "wrong_acceptance_beside_act",
            "a wrong consent is wrong everywhere",
            json!({ "certificate": written(D, S, T, Some("0".repeat(128))), "beside": "act" }),
            "certificate-signature",
        ),
        ("not_json", "JSON", instead("x".into()), "certificate-malformed"),
        ("list", "an object", instead("[]".into()), "certificate-malformed"),
        ("empty", "all members", instead("{}".into()), "certificate-malformed"),
        ("unknown_member", "a closed set", edit("{", "{\"scope\":\"all\","), "certificate-malformed"),
        (
            "member_twice",
            "first or last wins depends on the reader",
            edit("{", &format!("{{{number},")),
            "certificate-malformed",
        ),
        ("authority_missing", "all members", edit("authorityPublicKey", "authority"), "certificate-malformed"),
        (
            "authority_weak",
            "a key that verifies anything",
            edit(&D.hex(), &format!("01{}", "0".repeat(62))),
            "certificate-malformed",
        ),
        (
            "delegate_torsion",
            "a key with a torsion component",
            edit(&S.hex(), "d7081f8e05fb94cd7b251bf94dc4e12cb7d7933835addc91930ee6db68ef9288"),
            "certificate-malformed",
        ),
        ("delegate_upper_case", "one spelling", edit(&S.hex(), &S.hex().to_uppercase()), "certificate-malformed"),
        ("expiry_text", "a number", edit(&number, &format!("\"expiresAt\":\"{T}\"")), "certificate-malformed"),
        ("expiry_exponent", "no exponent", edit(&number, "\"expiresAt\":1e10"), "certificate-malformed"),
        ("expiry_too_large", "2^53", edit(&number, "\"expiresAt\":9007199254740992"), "certificate-malformed"),
        ("acceptance_null", "absent or a signature", edit(&format!("\"{yes}\""), "null"), "certificate-malformed"),
        ("acceptance_short", "128 digits", edit(&yes, "00"), "certificate-malformed"),
        (
            "malformed_before_signature",
            "two flaws: shape is told first",
            json!({ "certificate": written(D, X, T, Some(yes.clone())).replacen("}", ",\"x\":1}", 1) }),
            "certificate-malformed",
        ),
    ] {
        cases.push(Case::new(name, why, with(&plain, changes), no(code)));
    }
    cases
}

/// The same members, last first.
fn reordered(text: &str) -> String {
    let mut members: Vec<&str> = text.trim_matches(['{', '}']).split(',').collect();
    members.reverse();
    format!("{{ {} }}", members.join(" ,\n "))
}
