//! Chains: every check of a hop, every link, the successor rule, and which of two flaws is told.

use serde_json::{Value, json};
use wikala_chain::{Chain, Digest, PrefixCache, base64url};

use super::case::{Case, ok};
use super::cast::{A, B, H, P, Party, W, W2, X, malleated, sha256};
use super::chain_tables::{CLAIMS, HEADERS, LISTS, NAMES, TARGETS};

pub(super) const HEADER: &str = r#"{"alg":"EdDSA","typ":"JWT"}"#;

/// The inputs through the public API.
pub(super) fn replay(inputs: &Value) -> Value {
    let read = Chain::parse_json(&inputs["chain"].to_string());
    let verified = read.and_then(|chain| chain.map(|chain| chain.verify(&PrefixCache::disabled())).transpose());
    match verified {
        Ok(chain) => ok(json!({
            "head": chain.as_ref().map(|chain| chain.head().0.to_hex()),
            "presenter": chain.as_ref().map(|chain| chain.presenter().0.to_hex()),
        })),
        Err(error) => json!({ "ok": false, "code": error.code(), "hop": error.hop() }),
    }
}

/// All cases.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(honest());
    cases.extend(lists());
    cases.extend(tokens());
    cases.extend(tables());
    cases.extend(links());
    cases.extend(successors());
    cases.extend(orders());
    cases
}

fn good(name: &str, why: &str, chain: Vec<String>, head: Party, presenter: Party) -> Case {
    let expect = ok(json!({ "head": head.hex(), "presenter": presenter.hex() }));
    Case::new(name, why, json!({ "chain": chain }), expect)
}

fn bad(name: &str, why: &str, chain: impl Into<Value>, code: &str, hop: Option<usize>) -> Case {
    let expect = json!({ "ok": false, "code": code, "hop": hop });
    Case::new(name, why, json!({ "chain": chain.into() }), expect)
}

/// Claims of a hop after `prev`, with more members behind them.
fn claims(actor: Party, prev: Option<&str>, more: &str) -> String {
    let prev = prev.map_or("null".to_owned(), |token| format!("\"{}\"", sha256(token)));
    format!("{{\"actorPublicKey\":\"{}\",\"prevHash\":{prev}{more}}}", actor.hex())
}

fn hop(actor: Party, prev: Option<&str>) -> String {
    actor.token(HEADER, claims(actor, prev, ""))
}

fn dispatch(actor: Party, prev: Option<&str>, to: Party, name: &str) -> String {
    let more = format!(",\"dispatchedTo\":{{\"providerKey\":\"{}\",\"name\":\"{name}\"}}", to.hex());
    actor.token(HEADER, claims(actor, prev, &more))
}

/// A chain: who signs, and to whom if it is a dispatch.
fn chain(hops: &[(Party, Option<(Party, &str)>)]) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for (actor, to) in hops {
        let prev = tokens.last().map(String::as_str);
        tokens.push(match to {
            Some((to, name)) => dispatch(*actor, prev, *to, name),
            None => hop(*actor, prev),
        });
    }
    tokens
}

/// H, then B and A in turn.
fn long(hops: usize) -> Vec<String> {
    let turns = [A, B];
    let signers: Vec<_> = (0..hops).map(|n| (if n == 0 { H } else { turns[n % 2] }, None)).collect();
    chain(&signers)
}

fn honest() -> Vec<Case> {
    let to_p = Some((P, "translator"));
    let spaced = format!(" {{ \"prevHash\" : null ,\n\"actorPublicKey\" : \"{}\" }} ", H.hex());
    let padding = 1443 - claims(H, None, "").len();
    vec![
        good("single_hop", "the smallest chain: one key begins it", chain(&[(H, None)]), H, H),
        good("two_hops", "a second key extends it", chain(&[(H, None), (A, None)]), H, A),
        good("same_key_twice", "one key may act twice", chain(&[(H, None), (H, None)]), H, H),
        good("64_hops", "the longest chain that is read", long(64), H, B),
        good(
            "claims_white_space",
            "white space and order in the claims are free; the hash is over the text received",
            vec![H.token(HEADER, spaced)],
            H,
            H,
        ),
        good("header_without_typ", "typ is optional", vec![H.token(r#"{"alg":"EdDSA"}"#, claims(H, None, ""))], H, H),
        good(
            "header_other_order",
            "member order in the header is free",
            vec![H.token(r#"{"typ":"JWT","alg":"EdDSA"}"#, claims(H, None, ""))],
            H,
            H,
        ),
        good(
            "hop_of_2_kib",
            "the largest token that is read: 2,048 bytes",
            vec![H.token(HEADER, claims(H, None, &" ".repeat(padding)))],
            H,
            H,
        ),
        good(
            "ends_at_dispatch",
            "a dispatch may be the last word: the work is on its way",
            chain(&[(H, None), (W, Some((P, "ag")))]),
            H,
            W,
        ),
        good(
            "dispatch_as_hop_0",
            "a witness may begin a chain with a dispatch",
            chain(&[(W, Some((P, "a"))), (P, None)]),
            W,
            P,
        ),
        good(
            "reoffer",
            "the witness offers the work to another agent after the first declined",
            chain(&[(H, None), (W, to_p), (W, Some((B, "translator"))), (B, None)]),
            H,
            B,
        ),
        good(
            "named_provider_dispatches",
            "the named party is itself a witness",
            chain(&[(H, None), (W, Some((P, "a"))), (P, Some((B, "b")))]),
            H,
            P,
        ),
        good(
            "witness_dispatches_to_itself",
            "the named party may sign plainly, also when it named itself",
            chain(&[(W, Some((W, "ag"))), (W, None)]),
            W,
            W,
        ),
        good(
            "dispatch_and_taken",
            "the whole journey: begun, sent, taken on",
            chain(&[(H, None), (W, to_p), (P, None)]),
            H,
            P,
        ),
        good(
            "taken_and_passed_on",
            "after the named party the chain is anybody's to extend",
            chain(&[(H, None), (W, to_p), (P, None), (X, None)]),
            H,
            X,
        ),
    ]
}

fn lists() -> Vec<Case> {
    let one = hop(H, None);
    let mut cases: Vec<Case> = LISTS
        .iter()
        .map(|(name, why, json, code, hop)| {
            // Written in the table as JSON, so it reads.
            let list: Value = serde_json::from_str(json).unwrap_or_default();
            bad(name, why, list, code, *hop)
        })
        .collect();
    cases.push(bad("hop_number", "a list of strings", json!([one, 7]), "hop-not-a-string", Some(1)));
    cases.push(bad("hop_too_large", "2 KiB and one byte", vec!["A".repeat(2049)], "hop-too-large", Some(0)));
    cases.push(bad("65_hops", "one more than is read", long(65), "chain-too-long", None));
    cases.push(bad(
        "length_before_strings",
        "the list is measured before its elements are read",
        json!(vec![Value::Null; 65]),
        "chain-too-long",
        None,
    ));
    cases.push(bad(
        "string_before_size",
        "all elements are strings before any is measured",
        json!(["A".repeat(2049), 7]),
        "hop-not-a-string",
        Some(1),
    ));
    cases.push(bad(
        "size_before_hops",
        "the list is within the limits before any hop is read",
        json!(["x", "A".repeat(2049)]),
        "hop-too-large",
        Some(1),
    ));
    cases
}

fn tokens() -> Vec<Case> {
    let one = hop(H, None);
    let cut = &one[..one.rfind('.').unwrap_or(0)];
    let signature = base64url::decode(&one[cut.len() + 1..]).unwrap_or_default();
    let signed = |bytes: &[u8]| vec![format!("{cut}.{}", base64url::encode(bytes))];
    let plus_order = hex::decode(malleated(&hex::encode(&signature))).unwrap_or_default();
    let other = X.token(HEADER, claims(H, None, ""));
    let stray = |token: &str, last: &str| vec![format!("{}{last}", &token[..token.len() - 1])];
    let sig = |name, why, chain: Vec<String>| bad(name, why, chain, "hop-signature", Some(0));
    let b64 = |name, why, chain: Vec<String>| bad(name, why, chain, "hop-base64", Some(0));
    vec![
        bad("two_segments", "a compact JWS has three", vec![cut.to_owned()], "hop-not-jws", Some(0)),
        bad("four_segments", "a compact JWS has three", vec![format!("{one}.x")], "hop-not-jws", Some(0)),
        bad("no_segments", "an empty text is one segment", vec![String::new()], "hop-not-jws", Some(0)),
        b64("leading_space", "a token is received as it was signed", vec![format!(" {one}")]),
        b64("trailing_line_break", "a token is received as it was signed", vec![format!("{one}\n")]),
        b64("signature_padded", "unpadded base64url only", vec![format!("{one}=")]),
        b64("signature_tail_bits", "stray bits in the last character are a second spelling", stray(&one, "h")),
        b64(
            "other_alphabet",
            "base64url, not base64: plus and slash are no letters of it",
            vec![format!("{cut}.{}", "+/".repeat(43))],
        ),
        sig("signature_empty", "an empty third segment", signed(&[])),
        sig("signature_short", "63 bytes are no signature", signed(&signature[..63])),
        sig("signature_long", "65 bytes are no signature", signed(&[&signature[..], &[0]].concat())),
        sig("signature_zero", "64 zeros", signed(&[0; 64])),
        sig("signature_s_plus_order", "a malleated signature: S + L", signed(&plus_order)),
        sig("signed_by_other_key", "the signature must be of the key the hop names", vec![other]),
        sig(
            "header_exchanged",
            "the header is under the signature too",
            vec![one.replacen(&base64url::encode(HEADER.as_bytes()), &base64url::encode(br#"{"alg":"EdDSA"}"#), 1)],
        ),
    ]
}

fn tables() -> Vec<Case> {
    let one = hop(H, None);
    let fill = |text: &str| text.replace("$H", &H.hex()).replace("$P", &P.hex()).replace("$X", &X.hex());
    let headers = HEADERS
        .iter()
        .map(|(name, why, header)| bad(name, why, vec![H.token(header, claims(H, None, ""))], "hop-header", Some(0)));
    let alone = CLAIMS.iter().map(|(name, why, text, code)| {
        let mut token = H.token(HEADER, fill(text));
        // Nobody signs for these points: R the identity and S = 0, which a lenient
        // verifier takes under a weak key for any message.
        if *code == "hop-weak-key" || ["actor_key_not_canonical", "actor_key_not_on_curve"].contains(name) {
            token.truncate(token.rfind('.').map_or(0, |dot| dot + 1));
            token.push_str(&base64url::encode(&[&[1], &[0; 63][..]].concat()));
        }
        bad(name, why, vec![token], code, Some(0))
    });
    let targets = TARGETS.iter().map(|(name, why, target)| {
        let second = W.token(HEADER, claims(W, Some(&one), &format!(",\"dispatchedTo\":{}", fill(target))));
        bad(name, why, vec![one.clone(), second], "hop-claims", Some(1))
    });
    let names = NAMES.iter().map(|(name, why, text, repeat, reads)| {
        let target =
            format!(",\"dispatchedTo\":{{\"providerKey\":\"{}\",\"name\":\"{}\"}}", P.hex(), text.repeat(*repeat));
        let chain = vec![one.clone(), W.token(HEADER, claims(W, Some(&one), &target))];
        if *reads { good(name, why, chain, H, W) } else { bad(name, why, chain, "hop-claims", Some(1)) }
    });
    let not_utf8 = [&b"{\"actorPublicKey\":\""[..], &[0xff], b"\"}"].concat();
    let deep = |rest: &str| claims(H, None, &format!(",\"x\":{}{}{rest}", "[".repeat(64), "]".repeat(64)));
    let bytes = [
        bad("claims_not_utf8", "claims are UTF-8", vec![H.token(HEADER, not_utf8)], "hop-json", Some(0)),
        bad("claims_too_deep", "nesting stops at 64 levels", vec![H.token(HEADER, deep(""))], "hop-json", Some(0)),
        bad(
            "depth_before_duplicate",
            "a text with several faults: depth is told before a repeated key",
            vec![H.token(HEADER, deep(",\"x\":1"))],
            "hop-json",
            Some(0),
        ),
    ];
    headers.chain(alone).chain(targets).chain(names).chain(bytes).collect()
}

fn links() -> Vec<Case> {
    let story = chain(&[(H, None), (A, None), (B, None)]);
    let [h, a, b] = [0, 1, 2].map(|n| story[n].clone());
    let foreign = chain(&[(X, None), (B, None)]);
    let second = |prev: String| {
        let claims = format!("{{\"actorPublicKey\":\"{}\",\"prevHash\":{prev}}}", A.hex());
        vec![h.clone(), A.token(HEADER, claims)]
    };
    let unsigned = Digest::of(&h.as_bytes()[..h.rfind('.').unwrap_or(0)]);
    let broken = |name, why, chain: Vec<String>, hop| bad(name, why, chain, "hop-broken-link", Some(hop));
    vec![
        broken(
            "first_hop_has_prev_hash",
            "a chain cut at its front keeps a hash of what was cut",
            vec![hop(A, Some(&h))],
            0,
        ),
        broken("head_dropped", "the first hop cut off: its hash stays behind", vec![a.clone(), b.clone()], 0),
        broken("middle_dropped", "a hop cut out of the middle", vec![h.clone(), b.clone()], 1),
        broken("reordered", "the second hop first: nothing can come before hop 0", vec![a.clone(), h.clone()], 0),
        broken("repeated", "the same token twice", vec![h.clone(), a.clone(), a.clone()], 2),
        broken(
            "spliced_foreign_hop",
            "a hop grafted behind a chain it was not signed for",
            vec![h.clone(), foreign[1].clone()],
            1,
        ),
        broken(
            "head_exchanged",
            "another's first hop before hops that were signed for H",
            vec![foreign[0].clone(), a.clone()],
            1,
        ),
        broken("prev_hash_null_later", "a second hop 0 is no successor", second("null".into()), 1),
        broken(
            "prev_hash_of_payload",
            "the hash is of the whole token, signature included",
            second(format!("\"{unsigned}\"")),
            1,
        ),
        bad(
            "prev_hash_upper_case",
            "a hash has one spelling",
            second(format!("\"{}\"", sha256(&h).to_uppercase())),
            "hop-claims",
            Some(1),
        ),
        bad(
            "prev_hash_short",
            "a hash is 64 digits",
            second(format!("\"{}\"", &sha256(&h)[1..])),
            "hop-claims",
            Some(1),
        ),
        bad("prev_hash_number", "null or a text", second("0".into()), "hop-claims", Some(1)),
    ]
}

fn successors() -> Vec<Case> {
    let to = |party| Some((party, "ag"));
    let wrong = |name, why, hops: &[_], hop| bad(name, why, chain(hops), "hop-wrong-successor", Some(hop));
    let party = |name, why, hops: &[_], hop| bad(name, why, chain(hops), "hop-witness-as-party", Some(hop));
    let mut malformed = chain(&[(H, None), (W, to(P))]);
    malformed.push(X.token(HEADER, claims(X, malformed.last().map(String::as_str), ",\"dispatchedTo\":\"x\"")));
    vec![
        party(
            "witness_as_party",
            "the witness dispatched to P, then slips in as a party itself",
            &[(H, None), (W, Some((P, "translator"))), (W, None)],
            2,
        ),
        party(
            "witness_as_party_after_reoffer",
            "the same after it offered the work twice",
            &[(H, None), (W, to(P)), (W, to(B)), (W, None)],
            3,
        ),
        party(
            "head_dispatches_and_takes",
            "whoever dispatches to another may not take the work, the head included",
            &[(H, to(P)), (H, None)],
            1,
        ),
        wrong("other_party_after_dispatch", "work sent to P is taken by X", &[(H, None), (W, to(P)), (X, None)], 2),
        wrong(
            "head_after_dispatch",
            "nor does it go back to the head by itself",
            &[(H, None), (W, to(P)), (H, None)],
            2,
        ),
        wrong(
            "other_party_after_named_dispatch",
            "P passed the work to B, X takes it",
            &[(H, None), (W, to(P)), (P, to(B)), (X, None)],
            3,
        ),
        wrong(
            "first_target_after_reoffer",
            "the newest offer binds: P was passed over for B",
            &[(H, None), (W, to(P)), (W, to(B)), (P, None)],
            3,
        ),
        wrong(
            "second_witness_after_dispatch",
            "two witnesses in a row: the provider between them is missing",
            &[(H, None), (W, to(P)), (W2, to(B))],
            2,
        ),
        bad(
            "malformed_dispatch_after_dispatch",
            "claims are read before the successor rule",
            malformed,
            "hop-claims",
            Some(2),
        ),
    ]
}

/// Two flaws at once: which of them is told.
fn orders() -> Vec<Case> {
    let h = hop(H, None);
    let body = |text: &str| base64url::encode(text.as_bytes());
    let zeros = base64url::encode(&[0; 64]);
    let raw = |header: &str, claims: &str| vec![format!("{}.{}.{zeros}", body(header), body(claims))];
    let unlinked = "\"prevHash\":\"".to_owned() + &"0".repeat(64) + "\"";
    let second = |actor: Party| format!("{{\"actorPublicKey\":\"{}\",{unlinked}}}", actor.hex());
    let stolen = dispatch(W, Some(&h), P, "ag");
    let one = |name, why, chain: Vec<String>, code| bad(name, why, chain, code, Some(0));
    vec![
        one(
            "order_base64_before_header",
            "segments decode before any is read",
            vec![format!("{}.*.{zeros}", body("[]"))],
            "hop-base64",
        ),
        one("order_header_before_claims", "the header is read before the claims", raw("[]", "[]"), "hop-header"),
        one(
            "order_claims_before_key",
            "the set of claims is closed before its key is looked at",
            raw(HEADER, "{\"actorPublicKey\":\"zz\",\"prevHash\":null,\"x\":1}"),
            "hop-claims",
        ),
        one(
            "order_key_before_signature",
            "a key that is none verifies nothing",
            raw(HEADER, "{\"actorPublicKey\":\"zz\",\"prevHash\":null}"),
            "hop-key",
        ),
        bad(
            "order_signature_before_link",
            "a hop must be signed before its place is looked at",
            vec![h.clone(), X.token(HEADER, second(A))],
            "hop-signature",
            Some(1),
        ),
        bad(
            "order_link_before_successor",
            "what stands elsewhere is no successor at all",
            vec![h.clone(), stolen, X.token(HEADER, second(X))],
            "hop-broken-link",
            Some(2),
        ),
        one(
            "order_first_hop_first",
            "the first flaw by hop: hop 0's signature before hop 1's shape",
            vec![X.token(HEADER, claims(H, None, "")), "x".into()],
            "hop-signature",
        ),
    ]
}
