//! Requests signed by RFC 9421, as this witness takes them: one signature tagged
//! `wikala`, Ed25519, over method, target and body. Structured fields are read by a
//! library; the signature base is built here and checked with our own strict key.
//!
//! ```text
//! "@method": POST
//! "@target-uri": https://witness.example/agui/…          --public-url + received request-target
//! "content-digest": sha-256=:…:                          when there is a body
//! "@signature-params": ("@method" "@target-uri" "content-digest");created=…;nonce="…";keyid="64 hex";alg="ed25519";tag="wikala"
//! ```

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sfv::{BareItem, Dictionary, InnerList, KeyRef, ListEntry, ListSerializer, Parser, StringRef};
use sha2::{Digest as _, Sha256};
use wikala_certs::{SignedPresenter, WINDOW_S};
use wikala_chain::{Digest, PublicKey, Signature, SigningKey};

/// The tag that makes a signature ours; others are somebody else's business.
const TAG: &str = "wikala";
/// The longest nonce taken, characters.
const NONCE: usize = 128;

/// Who signed a request. The signature holds; the clock was not asked yet.
#[derive(Debug)]
pub struct HttpSigner {
    /// For the desk: signer, time, and the digest of the signature base.
    pub signed: SignedPresenter,
    /// The body is covered: the signer vouches for everything in it.
    pub covers_body: bool,
    /// The signing key.
    pub key: PublicKey,
}

/// Why a signature of ours does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request signature: {0}")]
pub struct PresenterProblem(String);

fn problem(why: impl Into<String>) -> PresenterProblem {
    PresenterProblem(why.into())
}

/// Verifies the signature of a request, if it has one of ours.
///
/// `target_uri` is what the client was told to call plus what arrived, never taken
/// from `Host` or forwarding headers.
///
/// # Errors
/// A signature tagged `wikala` that is malformed, does not cover what it must, or does
/// not hold.
pub fn verify(
    method: &str,
    target_uri: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<HttpSigner>, PresenterProblem> {
    let Some(inputs) = field(headers, "signature-input")? else { return Ok(None) };
    let inputs: Dictionary = Parser::new(&inputs).parse().map_err(|_| problem("Signature-Input is no dictionary"))?;
    let mut ours = inputs.iter().filter_map(|(label, entry)| match entry {
        ListEntry::InnerList(list) if text(list, "tag") == Some(TAG) => Some((label, list)),
        _ => None,
    });
    let Some((label, list)) = ours.next() else { return Ok(None) };
    if ours.next().is_some() {
        return Err(problem("tagged wikala twice, sign once"));
    }
    let signatures = field(headers, "signature")?.ok_or_else(|| problem("Signature is missing"))?;
    let signatures: Dictionary = Parser::new(&signatures).parse().map_err(|_| problem("Signature is no dictionary"))?;
    let signature = match signatures.get(label) {
        Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence().and_then(|bytes| bytes.try_into().ok()),
        _ => None,
    };
    let signature =
        Signature::from_bytes(signature.ok_or_else(|| problem("Signature is not 64 bytes under that label"))?);

    if list.params.get(KeyRef::from_str("alg").map_err(|_| problem("alg"))?).is_some()
        && text(list, "alg") != Some("ed25519")
    {
        return Err(problem("alg is not ed25519"));
    }
    let key = text(list, "keyid").ok_or_else(|| problem("keyid is missing, 64 lower-case hex"))?;
    let key = PublicKey::from_hex(key).map_err(|error| problem(format!("keyid: {error}")))?;
    let created = number(list, "created").ok_or_else(|| problem("created is missing, unix seconds"))?;
    if param(list, "expires").is_some()
        && number(list, "expires").is_none_or(|at| at < created.saturating_add(WINDOW_S))
    {
        // Only our window is judged, at the desk. A signer who means less must not be read as meaning more.
        return Err(problem(format!("expires is within {WINDOW_S} s of created, leave it out")));
    }
    match text(list, "nonce") {
        Some(nonce) if !nonce.is_empty() && nonce.len() <= NONCE => {}
        _ => return Err(problem("nonce is missing, send 1 to 128 characters")),
    }
    let covered = covered(list, method, target_uri, headers)?;
    let covers = |name: &str| covered.iter().any(|(known, _)| known == name);
    if !covers("@method") || !covers("@target-uri") {
        return Err(problem("must cover \"@method\" and \"@target-uri\""));
    }
    if covers("content-digest") {
        check_digest(headers, body)?;
    } else if !body.is_empty() {
        // Or whoever carries the request could exchange what it says.
        return Err(problem("must cover \"content-digest\" of its body"));
    }
    let base = base(&covered, list)?;
    key.verify(base.as_bytes(), &signature)
        .map_err(|_| problem(format!("does not hold under {}", key.fingerprint())))?;
    let signed = SignedPresenter::from_http(key, created, Digest::of(base.as_bytes()));
    Ok(Some(HttpSigner { signed, covers_body: covers("content-digest"), key }))
}

/// Signs a request: the headers to add.
#[must_use]
pub fn sign(
    key: &SigningKey,
    method: &str,
    target_uri: &str,
    body: Option<&[u8]>,
    created: u64,
    nonce: &str,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut base = format!("\"@method\": {method}\n\"@target-uri\": {target_uri}\n");
    let mut names = "\"@method\" \"@target-uri\"".to_owned();
    let mut headers = Vec::new();
    if let Some(body) = body {
        let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
        base.push_str(&format!("\"content-digest\": {digest}\n"));
        names.push_str(" \"content-digest\"");
        headers.push(("content-digest", digest));
    }
    let params = format!(
        "({names});created={created};nonce=\"{nonce}\";keyid=\"{}\";alg=\"ed25519\";tag=\"{TAG}\"",
        key.public()
    );
    base.push_str(&format!("\"@signature-params\": {params}"));
    let signature = STANDARD.encode(key.sign(base.as_bytes()).as_bytes());
    headers.push(("signature-input", format!("{TAG}={params}")));
    headers.push(("signature", format!("{TAG}=:{signature}:")));
    headers
        .into_iter()
        // Printable ASCII by construction, unless the caller's nonce is not: then it is left unsigned.
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?)))
        .collect()
}

/// A field's value: several lines of one field are one list (RFC 9110, 5.3).
fn field(headers: &HeaderMap, name: &str) -> Result<Option<String>, PresenterProblem> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        lines.push(value.to_str().map_err(|_| problem(format!("{name} is not ASCII")))?.trim());
    }
    Ok(if lines.is_empty() { None } else { Some(lines.join(", ")) })
}

fn param<'a>(list: &'a InnerList, name: &str) -> Option<&'a BareItem> {
    list.params.get(KeyRef::from_str(name).ok()?)
}

fn text<'a>(list: &'a InnerList, name: &str) -> Option<&'a str> {
    param(list, name)?.as_string().map(StringRef::as_str)
}

fn number(list: &InnerList, name: &str) -> Option<u64> {
    u64::try_from(i64::from(param(list, name)?.as_integer()?)).ok()
}

/// The covered components with their values, in the order they were signed.
fn covered(
    list: &InnerList,
    method: &str,
    target_uri: &str,
    headers: &HeaderMap,
) -> Result<Vec<(String, String)>, PresenterProblem> {
    let mut covered: Vec<(String, String)> = Vec::new();
    for item in &list.items {
        let name = item.bare_item.as_string().ok_or_else(|| problem("a covered component is no string"))?.as_str();
        // Parameters change what a component means (`;req`, `;sf`): none is needed here.
        if !item.params.is_empty() || covered.iter().any(|(known, _)| known == name) {
            return Err(problem(format!("component {name:?} has parameters or is listed twice")));
        }
        let value = match name {
            "@method" => method.to_owned(),
            "@target-uri" => target_uri.to_owned(),
            derived if derived.starts_with('@') => {
                return Err(problem(format!("component {derived:?} is not taken here, cover @method and @target-uri")));
            }
            header => {
                field(headers, header)?.ok_or_else(|| problem(format!("covers {header:?}, which did not arrive")))?
            }
        };
        covered.push((name.to_owned(), value));
    }
    Ok(covered)
}

fn check_digest(headers: &HeaderMap, body: &[u8]) -> Result<(), PresenterProblem> {
    let value = field(headers, "content-digest")?.ok_or_else(|| problem("Content-Digest is missing"))?;
    let digests: Dictionary = Parser::new(&value).parse().map_err(|_| problem("Content-Digest is no dictionary"))?;
    let given = match digests.get(KeyRef::from_str("sha-256").map_err(|_| problem("sha-256"))?) {
        Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
        _ => None,
    };
    if given == Some(Sha256::digest(body).as_slice()) {
        Ok(())
    } else {
        Err(problem("Content-Digest is not the sha-256 of the body that arrived"))
    }
}

/// The signature base (RFC 9421, 2.5); the parameters serialised as RFC 9651 says, in
/// the order received. So a respelt field (spaces, a number with a leading zero) has the
/// same base and the same digest: it is one act, spent once.
fn base(covered: &[(String, String)], list: &InnerList) -> Result<String, PresenterProblem> {
    let mut base = String::new();
    for (name, value) in covered {
        base.push_str(&format!("\"{name}\": {value}\n"));
    }
    let mut serializer = ListSerializer::new();
    serializer.members([&ListEntry::InnerList(list.clone())]);
    let params = serializer.finish().ok_or_else(|| problem("covers nothing"))?;
    base.push_str(&format!("\"@signature-params\": {params}"));
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "http://127.0.0.1:7420/v1/runs/run_0/answer?x=1";

    fn signed(body: Option<&[u8]>) -> HeaderMap {
        sign(&SigningKey::from_seed([7; 32]), "POST", URI, body, 1_790_000_000, "n-1").into_iter().collect()
    }

    #[test]
    fn what_we_sign_we_verify() {
        let signer = verify("POST", URI, &signed(Some(b"{}")), b"{}").unwrap().unwrap();
        assert_eq!(signer.key, SigningKey::from_seed([7; 32]).public());
        assert_eq!(signer.signed.timestamp(), 1_790_000_000);
        assert!(signer.covers_body);
        assert!(!verify("POST", URI, &signed(None), b"").unwrap().unwrap().covers_body);
    }

    #[test]
    fn another_method_target_or_body_is_refused() {
        let headers = signed(Some(b"{}"));
        assert!(verify("GET", URI, &headers, b"{}").is_err());
        assert!(verify("POST", "http://127.0.0.1:7420/v1/runs/run_0/answer", &headers, b"{}").is_err());
        assert!(verify("POST", URI, &headers, b"{ }").is_err());
        // A body beside a signature that does not cover it.
        assert!(verify("POST", URI, &signed(None), b"{}").is_err());
    }

    /// Signs a base that is written out here, as another implementation would.
    fn by_hand(base: &str, input: &str, extra: &[(&'static str, &str)]) -> HeaderMap {
        let signature = STANDARD.encode(SigningKey::from_seed([7; 32]).sign(base.as_bytes()).as_bytes());
        let mut headers = HeaderMap::new();
        for (name, value) in extra {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers.append("signature-input", HeaderValue::from_str(&format!("sig1={input}")).unwrap());
        headers.append("signature", HeaderValue::from_str(&format!("sig1=:{signature}:")).unwrap());
        headers
    }

    #[test]
    fn any_order_label_and_further_header_is_taken_and_other_signatures_stand_beside_it() {
        let key = SigningKey::from_seed([7; 32]).public();
        let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(b"{}")));
        let input = format!(
            "(\"content-digest\" \"x-two\" \"@target-uri\" \"@method\");tag=\"wikala\";keyid=\"{key}\";nonce=\"0\";created=1790000000"
        );
        let base = format!(
            "\"content-digest\": {digest}\n\"x-two\": a, b\n\"@target-uri\": {URI}\n\"@method\": POST\n\"@signature-params\": {input}"
        );
        // A proxy's own signature first; two lines of one field are one list.
        let extra = [
            ("signature-input", "proxy=(\"@authority\");created=1;tag=\"proxy\""),
            ("signature", "proxy=:AAAA:"),
            ("content-digest", &digest),
            ("x-two", "a"),
            ("x-two", " b "),
        ];
        let headers = by_hand(&base, &input, &extra);
        let signer = verify("POST", URI, &headers, b"{}").unwrap().unwrap();
        assert_eq!((signer.key, signer.covers_body), (key, true));
        assert_eq!(signer.signed.digest(), Digest::of(base.as_bytes()));

        // Respelt on the way: the same act, the same digest.
        let respelt = input.replace("\" \"", "\"   \"").replace(";created=", "; created=0");
        let headers = by_hand(&base, &respelt, &extra);
        assert_eq!(verify("POST", URI, &headers, b"{}").unwrap().unwrap().signed.digest(), Digest::of(base.as_bytes()));
    }

    #[test]
    fn a_component_has_no_parameters_and_stands_once() {
        let key = SigningKey::from_seed([7; 32]).public();
        // Signed as somebody would who hoped that we pass over what we do not know.
        for (list, lines, taken) in [
            ("\"@method\" \"@target-uri\"", "\"@method\": GET\n", true),
            ("\"@method\";req \"@target-uri\"", "\"@method\": GET\n", false),
            ("\"@method\";req \"@target-uri\"", "\"@method\";req: GET\n", false),
            ("\"@method\" \"@method\" \"@target-uri\"", "\"@method\": GET\n\"@method\": GET\n", false),
        ] {
            let input = format!("({list});created=1790000000;nonce=\"0\";keyid=\"{key}\";tag=\"wikala\"");
            let base = format!("{lines}\"@target-uri\": {URI}\n\"@signature-params\": {input}");
            assert_eq!(verify("GET", URI, &by_hand(&base, &input, &[]), b"").is_ok(), taken, "{input}");
        }
    }

    #[test]
    fn a_signature_covers_method_and_target_and_has_a_nonce() {
        let key = SigningKey::from_seed([7; 32]).public();
        let (method, target) = ("\"@method\": GET\n".to_owned(), format!("\"@target-uri\": {URI}\n"));
        let long = "n".repeat(NONCE + 1);
        for (list, lines, nonce, taken) in [
            ("\"@method\" \"@target-uri\"", method.clone() + &target, ";nonce=\"0\"", true),
            ("\"@method\"", method.clone(), ";nonce=\"0\"", false),
            ("\"@target-uri\"", target.clone(), ";nonce=\"0\"", false),
            ("\"@method\" \"@target-uri\"", method.clone() + &target, "", false),
            ("\"@method\" \"@target-uri\"", method.clone() + &target, ";nonce=\"\"", false),
            ("\"@method\" \"@target-uri\"", method + &target, &format!(";nonce=\"{long}\""), false),
        ] {
            let input = format!("({list});created=1790000000{nonce};keyid=\"{key}\";tag=\"wikala\"");
            let base = format!("{lines}\"@signature-params\": {input}");
            assert_eq!(verify("GET", URI, &by_hand(&base, &input, &[]), b"").is_ok(), taken, "{input}");
        }
    }

    #[test]
    fn a_shorter_life_than_the_window_is_not_read_as_a_longer_one() {
        let key = SigningKey::from_seed([7; 32]).public();
        for (expires, taken) in [("1790000059", false), ("\"soon\"", false), ("-1", false), ("1790000060", true)] {
            let input = format!(
                "(\"@method\" \"@target-uri\");created=1790000000;expires={expires};nonce=\"0\";keyid=\"{key}\";tag=\"wikala\""
            );
            let base = format!("\"@method\": GET\n\"@target-uri\": {URI}\n\"@signature-params\": {input}");
            assert_eq!(verify("GET", URI, &by_hand(&base, &input, &[]), b"").is_ok(), taken, "{expires}");
        }
    }

    #[test]
    fn a_weak_key_and_a_misplaced_signature_are_refused() {
        let headers = signed(None);
        let change = |name: &'static str, from: &str, to: &str| {
            let mut changed = headers.clone();
            let value = headers[name].to_str().unwrap();
            assert!(value.contains(from), "{name}: {from}");
            changed.insert(name, HeaderValue::from_str(&value.replace(from, to)).unwrap());
            verify("POST", URI, &changed, b"").map(|_| ()).unwrap_err().to_string()
        };
        let key = SigningKey::from_seed([7; 32]).public().to_hex();
        // The identity point: under it anybody's signature would hold.
        let weak = format!("01{}", "00".repeat(31));
        assert!(change("signature-input", &key, &weak).contains("weak"), "weak key");
        assert!(change("signature-input", &key, &key.to_uppercase()).contains("keyid"), "upper case");
        assert!(change("signature", "wikala=", "other=").contains("64 bytes"), "label");
        assert!(change("signature", "wikala=:", "wikala=:AAAA").contains("64 bytes"), "length");
        assert!(change("signature-input", "wikala=(", "wikala=((").contains("dictionary"), "broken");
        let twice = format!("{0}, b{0}", headers["signature-input"].to_str().unwrap());
        let mut doubled = headers.clone();
        doubled.insert("signature-input", HeaderValue::from_str(&twice).unwrap());
        assert!(verify("POST", URI, &doubled, b"").unwrap_err().to_string().contains("twice"));
        let mut missing = headers.clone();
        missing.remove("signature");
        assert!(verify("POST", URI, &missing, b"").is_err());
    }

    #[test]
    fn another_tag_is_not_ours_and_a_broken_one_is_told() {
        let mut headers = signed(Some(b"{}"));
        let input = headers["signature-input"].to_str().unwrap().to_owned();
        headers
            .insert("signature-input", HeaderValue::from_str(&input.replace("tag=\"wikala\"", "tag=\"x\"")).unwrap());
        assert!(verify("POST", URI, &headers, b"{}").unwrap().is_none());
        for (from, to) in [
            (";nonce=\"n-1\"", ""),
            ("created=1790000000", "created=1790000001"),
            ("alg=\"ed25519\"", "alg=\"hmac-sha256\""),
            (" \"@target-uri\"", ""),
            ("\"@method\" ", ""),
            (" \"content-digest\"", ""),
            ("(\"@method\"", "(\"@method\";req"),
        ] {
            assert!(input.contains(from));
            headers.insert("signature-input", HeaderValue::from_str(&input.replace(from, to)).unwrap());
            assert!(verify("POST", URI, &headers, b"{}").is_err(), "{from} -> {to}");
        }
    }
}
