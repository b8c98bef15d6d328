//! What holds for every chain, not only for the listed ones.

use rand::rngs::Xoshiro128PlusPlus;
use rand::{RngExt, SeedableRng};
use wikala_chain::{AgentName, Chain, MAX_HOPS, PrefixCache, SigningKey, Target, VerifiedChain, base64url};

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}

fn target(n: u8, name: &str) -> Target {
    Target { provider: key(n).public(), name: AgentName::new(name).unwrap() }
}

/// H begins, the witness dispatches to P, P takes it on.
fn story() -> VerifiedChain {
    let begun = VerifiedChain::start(&key(1));
    let sent = begun.dispatch(&key(9), target(2, "translator")).unwrap();
    sent.extend(&key(2)).unwrap()
}

fn tokens(chain: &VerifiedChain) -> Vec<String> {
    chain.tokens().map(str::to_owned).collect()
}

fn code(tokens: Vec<String>, cache: &PrefixCache) -> Option<&'static str> {
    match Chain::parse(tokens).and_then(|chain| chain.verify(cache)) {
        Ok(_) => None,
        Err(error) => Some(error.code()),
    }
}

#[test]
fn any_one_byte_change_is_refused() {
    let good = tokens(&story());
    // A warm cache: what it knows of the good chain must not help a changed one.
    let cache = PrefixCache::new(100);
    assert_eq!(code(good.clone(), &cache), None);
    for hop in 0..good.len() {
        for at in 0..good[hop].len() {
            // One bit, and a neighbour in the alphabet that may decode alike.
            for flip in [1u8, 2, 4, 0x20] {
                let mut bytes = good[hop].clone().into_bytes();
                bytes[at] ^= flip;
                let Ok(text) = String::from_utf8(bytes) else {
                    continue;
                };
                let mut changed = good.clone();
                changed[hop] = text;
                assert!(code(changed, &cache).is_some(), "hop {hop}, byte {at}, bit {flip}");
            }
        }
    }
    for hop in 0..good.len() {
        for edit in ["cut", "more", "space"] {
            let mut changed = good.clone();
            match edit {
                "cut" => drop(changed[hop].pop()),
                "more" => changed[hop].push('A'),
                _ => changed[hop].push(' '),
            }
            assert!(code(changed, &cache).is_some(), "hop {hop}, {edit}");
        }
    }
}

#[test]
fn decode_of_encode_is_identity() {
    let mut rng = Xoshiro128PlusPlus::seed_from_u64(7);
    for _ in 0..60 {
        let mut chain = VerifiedChain::start(&key(rng.random_range(1..6)));
        for _ in 0..rng.random_range(0..8) {
            let signer = key(rng.random_range(1..6));
            let next = if rng.random_bool(0.4) {
                chain.dispatch(&signer, target(rng.random_range(1..6), "a \"quoted\" \\ name, و"))
            } else {
                chain.extend(&signer)
            };
            // Steps the successor rule forbids are refused at the signer already.
            match next {
                Ok(longer) => chain = longer,
                Err(error) => {
                    assert!(["hop-wrong-successor", "hop-witness-as-party"].contains(&error.code()), "{error}")
                }
            }
        }
        let read = Chain::parse_json(&chain.to_json()).unwrap().unwrap();
        let read = read.verify(&PrefixCache::disabled()).unwrap();
        assert_eq!(read, chain);
        assert_eq!(read.to_json(), chain.to_json());
        assert_eq!(read.head().0, chain.hops()[0].actor());
        assert_eq!(read.presenter().0, chain.hops().last().unwrap().actor());
    }
}

/// Claims edited at random and signed by the key they began with: nothing
/// panics, and whatever is accepted says to an ordinary JSON reader what it says to us.
#[test]
fn edited_claims_are_refused_or_read_alike() {
    let mut rng = Xoshiro128PlusPlus::seed_from_u64(11);
    let (me, alphabet) = (key(1), br#"{}[]:,"\nul0129abcdef A"#);
    let begun = VerifiedChain::start(&me).dispatch(&me, target(2, "x")).unwrap();
    let read = |token: &str| {
        let claims = base64url::decode(token.split('.').nth(1).unwrap()).unwrap();
        (token.split('.').next().unwrap().to_owned(), claims)
    };
    let (header, claims) = read(begun.hops()[1].token());
    let cache = PrefixCache::disabled();
    let mut accepted = 0;
    for round in 0..3_000 {
        let mut edited = claims.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..edited.len());
            match rng.random_range(0..3) {
                0 => drop(edited.remove(at)),
                1 => edited.insert(at, alphabet[rng.random_range(0..alphabet.len())]),
                _ => edited[at] = alphabet[rng.random_range(0..alphabet.len())],
            }
        }
        let signed = format!("{header}.{}", base64url::encode(&edited));
        let signature = base64url::encode(me.sign(signed.as_bytes()).as_bytes());
        let tokens = vec![begun.hops()[0].token().to_owned(), format!("{signed}.{signature}")];
        let Ok(chain) = Chain::parse(tokens).unwrap().verify(&cache) else {
            continue;
        };
        accepted += 1;
        let theirs: serde_json::Value = serde_json::from_slice(&edited).unwrap();
        let hop = &chain.hops()[1];
        assert_eq!(theirs["actorPublicKey"], hop.actor().to_hex(), "round {round}");
        assert_eq!(theirs["prevHash"], hop.prev().unwrap().to_hex());
        let to = hop.dispatched_to().map(|to| (to.provider.to_hex(), to.name.to_string()));
        let at = |member: &str| theirs["dispatchedTo"][member].as_str().map(str::to_owned);
        assert_eq!(to, at("providerKey").zip(at("name")));
    }
    assert!(accepted > 10, "{accepted} edits kept the claims in order");
}

#[test]
fn limits_hold_for_readers_and_writers() {
    let mut chain = VerifiedChain::start(&key(1));
    for n in 1..MAX_HOPS {
        chain = chain.extend(&key(1 + (n % 3) as u8)).unwrap();
    }
    assert_eq!(chain.hops().len(), 64);
    let cache = PrefixCache::new(1000);
    assert_eq!(code(tokens(&chain), &cache), None);
    let error = chain.extend(&key(1)).unwrap_err();
    assert_eq!((error.code(), error.hop()), ("chain-too-long", None));
    let mut long = tokens(&chain);
    long.push(long[0].clone());
    assert_eq!(code(long, &cache), Some("chain-too-long"));

    assert_eq!(code(vec![], &cache), Some("chain-empty"));
    assert_eq!(code(vec!["a".repeat(2048)], &cache), Some("hop-not-jws"));
    assert_eq!(code(vec!["a".repeat(2049)], &cache), Some("hop-too-large"));
    // The longest names still fit: 128 characters of four bytes, or escaped ones.
    for name in ["\u{1f4e6}", "\"", "\\"] {
        let sent = VerifiedChain::start(&key(1)).dispatch(&key(9), target(2, &name.repeat(128)));
        assert_eq!(code(tokens(&sent.unwrap()), &cache), None);
    }
}

#[test]
fn json_lists_are_read_strictly() {
    let read = |raw: &str| Chain::parse_json(raw).map(|chain| chain.is_some()).map_err(|e| e.code());
    assert_eq!(read("null"), Ok(false));
    assert_eq!(read(" null "), Ok(false));
    assert_eq!(read("[]"), Err("chain-empty"));
    assert_eq!(read(&format!("[{}0]", "0,".repeat(64))), Err("chain-too-long"));
    assert_eq!(read(&format!("[{}0]", "0,".repeat(500_000))), Err("chain-too-long"));
    assert_eq!(read("[1]"), Err("hop-not-a-string"));
    assert_eq!(read(r#"["\ud800"]"#), Err("hop-not-a-string"));
    for bad in ["", "{}", "\"a\"", "1", "[", "[\"a\"", "[\"a\"] x", "[\"a\",]", "nul"] {
        assert_eq!(read(bad), Err("chain-not-a-list"), "{bad}");
    }
    // The text of a token is what the JSON string says, whatever its spelling.
    let token = story().to_json().replacen("eyJ", "\\u0065yJ", 1);
    assert!(Chain::parse_json(&token).unwrap().unwrap().verify(&PrefixCache::disabled()).is_ok());
}

#[test]
fn the_cache_keeps_only_valid_prefixes_within_its_bound() {
    let cache = PrefixCache::new(20);
    let good = tokens(&story());
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last].pop();
    assert!(code(bad.clone(), &cache).is_some());
    assert_eq!(cache.len(), last, "the hops before the bad one, and not that one");
    assert!(code(bad, &cache).is_some(), "a second look gives the same answer");

    // A hop that is known behind its own prefix is not known behind another.
    assert_eq!(code(good.clone(), &cache), None);
    let other = tokens(&VerifiedChain::start(&key(5)));
    let spliced = vec![other[0].clone(), good[1].clone()];
    assert_eq!(code(spliced, &cache), Some("hop-broken-link"));
    assert_eq!(code(good[1..].to_vec(), &cache), Some("hop-broken-link"));

    let own = PrefixCache::new(20);
    own.remember(&story());
    assert_eq!(own.len(), 3);
    assert_eq!(code(good.clone(), &own), None);
    assert_eq!(own.len(), 3, "what was remembered is what a reader looks for");

    for n in 0..200 {
        let chain = VerifiedChain::start(&SigningKey::from_seed([n; 32]));
        assert_eq!(code(tokens(&chain), &cache), None);
        assert!(cache.len() <= 20);
    }
    assert!(PrefixCache::disabled().is_empty());
}
