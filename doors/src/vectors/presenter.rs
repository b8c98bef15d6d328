//! Presenters: who holds the end of a chain, here and now. The chain is verified
//! first; the presenter must be the signer of its last hop.

use serde_json::{Value, json};
use wikala_certs::{Moment, Proof, SignedPresenter};
use wikala_chain::{AgentName, Chain, PrefixCache, PublicKey, Target, VerifiedChain};

use super::case::{Case, no, number, ok, text, with};
use super::cast::{A, H, NONCE, NOW, P, Party, W, W2, X, malleated, sha256};

pub(super) fn replay(inputs: &Value) -> Value {
    judge(inputs).unwrap_or_else(|code| no(&code))
}

fn judge(inputs: &Value) -> Result<Value, String> {
    let proof = Proof::parse(text(inputs, "proof")).map_err(|error| error.code().to_owned())?;
    let chain = Chain::parse_json(&inputs["chain"].to_string())
        .and_then(|chain| chain.map(|chain| chain.verify(&PrefixCache::disabled())).transpose())
        .map_err(|error| error.code().to_owned())?;
    let key = |name| PublicKey::from_hex(text(inputs, name)).map_err(|error| error.to_string());
    let name = AgentName::new(text(inputs, "name")).map_err(|error| error.to_string())?;
    let tip = chain.as_ref().map(VerifiedChain::tip);
    let signed = SignedPresenter::verify(&proof, &key("witness")?, &key("provider")?, &name, tip)
        .map_err(|error| error.code().to_owned())?;
    // Compare the presenter, not the head: anyone who was sent this chain can replay
    // it with the head intact.
    if chain.is_some_and(|chain| chain.presenter().0 != signed.signer()) {
        return Err("presenter-mismatch".into());
    }
    let now = Moment::from_secs(number(inputs, "now"));
    let presented = signed.fresh(now).map_err(|error| error.code().to_owned())?;
    Ok(ok(json!({ "signer": presented.signer().to_hex(), "digest": presented.digest().to_hex() })))
}

pub(super) fn cases() -> Vec<Case> {
    let begun = VerifiedChain::start(&H.key());
    let extended = begun.extend(&A.key()).ok();
    let tokens = |chain: &VerifiedChain| chain.tokens().map(str::to_owned).collect::<Vec<_>>();
    let tip = |chain: &[String]| chain.last().map_or("0".repeat(64), |token| sha256(token));
    let (one, two) = (tokens(&begun), extended.as_ref().map(tokens).unwrap_or_default());
    let bytes = |witness: Party, provider: Party, name: &str, tip: &str, nonce: &str, at: u64| {
        format!("wikala-present:{}:{}:{name}:{tip}:{nonce}:{at}", witness.hex(), provider.hex())
    };
    let here = bytes(W, P, "translator", &tip(&one), NONCE, NOW);
    let chainless = bytes(W, P, "translator", &tip(&[]), NONCE, NOW);
    let further = bytes(W, P, "translator", &tip(&two), NONCE, NOW);
    let proof = |signer: Party, bytes: &str| {
        format!(
            r#"{{"publicKey":"{}","timestamp":{NOW},"signature":"{}","nonce":"{NONCE}"}}"#,
            signer.hex(),
            signer.sign(bytes)
        )
    };
    let plain = json!({
        "proof": proof(H, &here), "witness": W.hex(), "provider": P.hex(), "name": "translator", "chain": one, "now": NOW,
    });
    let granted = |signer: Party, bytes: &str| ok(json!({ "signer": signer.hex(), "digest": sha256(bytes) }));
    let signed = H.sign(&here);
    let edit = |from: &str, to: &str| json!({ "proof": proof(H, &here).replace(from, to) });
    // A plain ASCII word is a name.
    let dispatched =
        Target { provider: P.public(), name: AgentName::new("translator").unwrap_or_else(|_| unreachable!()) };
    let sent = begun.dispatch(&W.key(), dispatched).map(|chain| tokens(&chain)).unwrap_or_default();
    let sent_bytes = bytes(W, P, "translator", &tip(&sent), NONCE, NOW);
    let colons = bytes(W, P, "a:b", &tip(&one), NONCE, NOW);
    let nameless = NONCE.replace("c9", "d0");

    let mut cases = vec![
        Case::new("one_hop", "the head presents its own chain", plain.clone(), granted(H, &here)),
        Case::new(
            "two_hops",
            "A presents what H began",
            with(&plain, json!({ "chain": two, "proof": proof(A, &further) })),
            granted(A, &further),
        ),
        Case::new(
            "chainless",
            "no chain: 64 zeros stand for its tip, anybody may sign",
            with(&plain, json!({ "chain": null, "proof": proof(X, &chainless) })),
            granted(X, &chainless),
        ),
        Case::new(
            "name_with_colons",
            "a name may hold colons",
            with(&plain, json!({ "name": "a:b", "proof": proof(H, &colons) })),
            granted(H, &colons),
        ),
        Case::new(
            "60_s_old",
            "the last second of the window",
            with(&plain, json!({ "now": NOW + 60 })),
            granted(H, &here),
        ),
        Case::new(
            "60_s_ahead",
            "the first second of the window",
            with(&plain, json!({ "now": NOW - 60 })),
            granted(H, &here),
        ),
    ];
    for (name, why, changes, code) in [
        ("61_s_old", "stale", json!({ "now": NOW + 61 }), "presenter-proof"),
        ("61_s_ahead", "early", json!({ "now": NOW - 61 }), "presenter-proof"),
        ("other_witness", "carried to another witness", json!({ "witness": W2.hex() }), "presenter-proof"),
        ("other_provider", "carried to another provider", json!({ "provider": X.hex() }), "presenter-proof"),
        (
            "other_agent",
            "carried to another agent of the same provider",
            json!({ "name": "billing" }),
            "presenter-proof",
        ),
        ("agent_in_other_case", "names are compared exactly", json!({ "name": "Translator" }), "presenter-proof"),
        ("other_tip", "H's proof beside a chain that goes on", json!({ "chain": two }), "presenter-proof"),
        ("chain_taken_away", "H's proof beside no chain at all", json!({ "chain": null }), "presenter-proof"),
        (
            "chain_added",
            "a chainless proof beside a chain",
            json!({ "proof": proof(H, &chainless) }),
            "presenter-proof",
        ),
        ("other_nonce", "the nonce is signed: one proof is good once", edit(NONCE, &nameless), "presenter-proof"),
        ("other_time", "the time is signed", edit(&format!(":{NOW},"), &format!(":{},", NOW + 1)), "presenter-proof"),
        ("other_key", "X claims to be H", edit(&signed, &X.sign(&here)), "presenter-proof"),
        ("malleated", "S + L", edit(&signed, &malleated(&signed)), "presenter-proof"),
        (
            "without_nonce",
            "a presenter proof has a nonce",
            edit(&format!(",\"nonce\":\"{NONCE}\""), ""),
            "presenter-proof",
        ),
        (
            "resolve_as_presenter",
            "an act is no presence",
            json!({ "proof": proof(H, &format!("funduq-resolve:run_2c26b46b68ffc68ff99b453c:{NOW}")) }),
            "presenter-proof",
        ),
        (
            "colon_moved",
            "a part of the name cannot become the next part",
            json!({ "name": format!("translator:{}", tip(&one)), "proof": proof(H, &here) }),
            "presenter-proof",
        ),
        (
            "parts_exchanged",
            "witness and provider are not the same",
            json!({ "witness": P.hex(), "provider": W.hex() }),
            "presenter-proof",
        ),
        (
            "carrier",
            "X was sent H's chain and presents it with a key of its own",
            json!({ "proof": proof(X, &here) }),
            "presenter-mismatch",
        ),
        (
            "head_of_a_longer_chain",
            "the head is not the last hop",
            json!({ "chain": two, "proof": proof(H, &further) }),
            "presenter-mismatch",
        ),
        (
            "target_of_a_dispatch",
            "P was named and has not signed on yet",
            json!({ "chain": sent, "proof": proof(P, &sent_bytes) }),
            "presenter-mismatch",
        ),
        (
            "carrier_stale",
            "who before when",
            json!({ "proof": proof(X, &here), "now": NOW + 61 }),
            "presenter-mismatch",
        ),
        ("malformed", "shapes are checked before signatures", json!({ "proof": "{}" }), "proof-malformed"),
        (
            "malformed_beside_bad_chain",
            "shapes are checked before the chain is verified",
            json!({ "proof": "{}", "chain": [two.last()] }),
            "proof-malformed",
        ),
        (
            "bad_chain",
            "a chain that does not verify has no presenter",
            json!({ "chain": [two.last()] }),
            "hop-broken-link",
        ),
    ] {
        cases.push(Case::new(name, why, with(&plain, changes), no(code)));
    }
    cases
}
