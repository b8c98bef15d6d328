//! What the proof types promise, each promise by name.

use wikala_certs::{
    ActingFor, AuthoritySet, Cancel, CertError, Certificate, Consent, Form, Moment, Proof, Resolve, SignedAct,
    SignedCertificate, SignedPresenter,
};
use wikala_chain::{AgentName, Digest, PublicKey, SigningKey, nonce};

const RUN: &str = "run_2c26b46b68ffc68ff99b453c";
const OTHER_RUN: &str = "run_2c26b46b68ffc68ff99b453d";
const NOW: Moment = Moment::from_secs(1_764_540_000);

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}

/// H is the head, P the provider, SK a session key, X a stranger.
fn h() -> SigningKey {
    key(1)
}
fn p() -> SigningKey {
    key(2)
}
fn sk() -> SigningKey {
    key(3)
}
fn x() -> SigningKey {
    key(4)
}

fn set() -> AuthoritySet {
    AuthoritySet::of([h().public(), p().public()])
}

fn acting(authority: &SigningKey, delegate: &SigningKey) -> ActingFor {
    let issued = SignedCertificate::issue(authority, &delegate.public(), NOW.as_secs());
    issued.live(NOW).unwrap()
}

// Freshness

#[test]
fn freshness_is_exact_on_both_sides() {
    let witness = key(9).public();
    let name = AgentName::new("a").unwrap();
    for (offset, fresh) in [(-61i64, false), (-60, true), (-59, true), (0, true), (59, true), (60, true), (61, false)] {
        let signed = Moment::from_secs(NOW.as_secs().checked_add_signed(offset).unwrap());
        let act = SignedAct::resolve(&Proof::resolve(&h(), RUN, signed), RUN).unwrap();
        let act = act.stand(&set(), None).unwrap().fresh(NOW);
        assert_eq!(act.as_ref().map(|_| ()).map_err(|e| e.code()), if fresh { Ok(()) } else { Err("act-stale") });
        let cancel = SignedAct::cancel(&Proof::cancel(&h(), RUN, signed), RUN).unwrap();
        assert_eq!(cancel.stand(&set(), None).unwrap().fresh(NOW).is_ok(), fresh);

        let proof = Proof::present(&h(), &witness, &p().public(), &name, None, &nonce(), signed);
        let here = SignedPresenter::verify(&proof, &witness, &p().public(), &name, None).unwrap().fresh(NOW);
        assert_eq!(here.map(|_| ()).map_err(|e| e.code()), if fresh { Ok(()) } else { Err("presenter-proof") });
        let http = SignedPresenter::from_http(h().public(), signed.as_secs(), Digest::ZERO);
        assert_eq!(http.fresh(NOW).is_ok(), fresh);
    }
}

#[test]
fn sentences_say_place_fact_expectation() {
    let old = SignedAct::resolve(&Proof::resolve(&h(), RUN, NOW), RUN).unwrap();
    let error = old.stand(&set(), None).unwrap().fresh(NOW.plus(71)).unwrap_err();
    assert_eq!(error.to_string(), "resolve: signed 71 s ago, window is 60 s");
    let foreign = SignedAct::cancel(&Proof::cancel(&x(), RUN, NOW), RUN).unwrap();
    let error = foreign.stand(&set(), None).unwrap_err();
    let who = x().public().fingerprint();
    assert_eq!(error.to_string(), format!("cancel: {who} is neither head nor provider of this run"));
}

// Acts

#[test]
fn a_signature_counts_for_its_act_and_its_run_alone() {
    let (resolve, cancel) = (Proof::resolve(&h(), RUN, NOW), Proof::cancel(&h(), RUN, NOW));
    let bound = Proof::answer(&h(), RUN, &["a", "b"], b"yes", NOW);
    assert!(SignedAct::resolve(&resolve, RUN).is_ok());
    assert!(SignedAct::cancel(&cancel, RUN).is_ok());
    assert!(SignedAct::answer(&bound, RUN, &["b", "a"], b"yes").is_ok(), "asks are a set");

    let refused = [
        SignedAct::resolve(&cancel, RUN).err(),
        SignedAct::resolve(&bound, RUN).err(),
        SignedAct::resolve(&resolve, OTHER_RUN).err(),
        SignedAct::resolve(&Proof { timestamp: NOW.as_secs() + 1, ..resolve.clone() }, RUN).err(),
        SignedAct::resolve(&Proof { public_key: x().public(), ..resolve.clone() }, RUN).err(),
        SignedAct::resolve(&Proof { nonce: Some(nonce()), ..resolve.clone() }, RUN).err(),
        SignedAct::cancel(&resolve, RUN).err(),
        SignedAct::cancel(&cancel, OTHER_RUN).err(),
        SignedAct::answer(&bound, RUN, &["a", "b"], b"no").err(),
        SignedAct::answer(&bound, RUN, &["a"], b"yes").err(),
        SignedAct::answer(&bound, OTHER_RUN, &["a", "b"], b"yes").err(),
        SignedAct::answer(&resolve, RUN, &["a", "b"], b"yes").err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        assert_eq!(error.unwrap_or_else(|| panic!("case {n} was accepted")).code(), "act-signature");
    }
}

#[test]
fn what_was_proved_arrives_unchanged() {
    let proof = Proof::answer(&sk(), RUN, &["a"], b"yes", NOW);
    let act = SignedAct::<Resolve>::answer(&proof, RUN, &["a"], b"yes").unwrap();
    assert_eq!((act.run(), act.signer(), act.timestamp()), (RUN, sk().public(), NOW.as_secs()));
    let digest = act.digest();
    assert_eq!(digest, wikala_chain::payload::answer(RUN, &["a"], b"yes", NOW.as_secs()).digest());
    let standing = act.stand(&set(), Some(&acting(&h(), &sk()))).unwrap();
    assert_eq!((standing.digest(), standing.form(), standing.run()), (digest, Form::Answer, RUN));
    let may = standing.fresh(NOW.plus(1)).unwrap();
    assert_eq!((may.authority(), may.signer(), may.run()), (h().public(), sk().public(), RUN));
    assert_eq!((may.digest(), may.at(), may.timestamp()), (digest, NOW.plus(1), NOW.as_secs()));
    assert_eq!(may.form(), Form::Answer);
    let plain = SignedAct::resolve(&Proof::resolve(&h(), RUN, NOW), RUN).unwrap();
    assert_eq!(plain.form(), Form::Resolve);
}

#[test]
fn the_signer_stands_as_itself_or_as_whom_it_acts_for() {
    let stands = |signer: &SigningKey, set: &AuthoritySet, acting: Option<ActingFor>| {
        let act: SignedAct<Cancel> = SignedAct::cancel(&Proof::cancel(signer, RUN, NOW), RUN).unwrap();
        act.stand(set, acting.as_ref()).map(|standing| standing.authority()).map_err(|e| e.code())
    };
    let no = Err("not-an-authority");
    let (open, nobody) = (AuthoritySet::open(), AuthoritySet::of([]));
    for (case, got, expect) in [
        ("the head", stands(&h(), &set(), None), Ok(h().public())),
        ("the provider", stands(&p(), &set(), None), Ok(p().public())),
        ("a stranger", stands(&x(), &set(), None), no),
        ("a session key without certificate", stands(&sk(), &set(), None), no),
        ("a session key with one", stands(&sk(), &set(), Some(acting(&h(), &sk()))), Ok(h().public())),
        ("a stranger with another's certificate", stands(&x(), &set(), Some(acting(&h(), &sk()))), no),
        ("a delegate of a stranger", stands(&sk(), &set(), Some(acting(&x(), &sk()))), no),
        ("the head beside an unrelated certificate", stands(&h(), &set(), Some(acting(&x(), &sk()))), Ok(h().public())),
        ("the head as a stranger's delegate", stands(&h(), &set(), Some(acting(&x(), &h()))), Ok(h().public())),
        ("anyone where it is open", stands(&x(), &open, None), Ok(x().public())),
        ("a delegate where it is open", stands(&sk(), &open, Some(acting(&h(), &sk()))), Ok(h().public())),
        ("another's certificate where it is open", stands(&x(), &open, Some(acting(&h(), &sk()))), Ok(x().public())),
        ("anyone where nobody may", stands(&h(), &nobody, None), no),
    ] {
        assert_eq!(got, expect, "{case}");
    }
    // One level: SK may act for H, SK2 for SK; SK2 is not H.
    assert_eq!(stands(&x(), &set(), Some(acting(&sk(), &x()))), no);
}

#[test]
fn sets_are_ordered_and_each_key_is_in_once() {
    let set = AuthoritySet::of([p().public(), h().public(), p().public()]);
    assert_eq!(set.iter().collect::<Vec<_>>(), [p().public(), h().public()]);
    assert!(!set.is_open() && set.contains(&h().public()) && !set.contains(&x().public()));
    let open = AuthoritySet::open();
    assert!(open.is_open() && open.contains(&x().public()) && open.iter().next().is_none());
    assert_ne!(open, AuthoritySet::of([]));
}

// Proofs on the wire

#[test]
fn a_proof_has_one_shape_and_never_panics() {
    let proof =
        Proof::present(&h(), &key(9).public(), &p().public(), &AgentName::new("a").unwrap(), None, &nonce(), NOW);
    let bare = Proof::resolve(&h(), RUN, NOW);
    for good in [&proof, &bare] {
        assert_eq!(Proof::parse(&good.to_json()).as_ref(), Ok(good));
    }
    // As protobuf writes numbers, in any order, with any space.
    let (k, s) = (h().public().to_hex(), bare.signature.to_hex());
    let spaced = format!("{{ \"signature\": \"{s}\",\n\"timestamp\":1764540000.0, \"publicKey\":\"{k}\"}}");
    assert_eq!(Proof::parse(&spaced), Ok(bare));

    let with = |k: &str, t: &str, s: &str, more: &str| {
        format!("{{\"publicKey\":{k},\"timestamp\":{t},\"signature\":{s}{more}}}")
    };
    let (kq, sq, upper) = (format!("\"{k}\""), format!("\"{s}\""), format!("\"{}\"", k.to_uppercase()));
    let weak = format!("\"01{}\"", "00".repeat(31));
    for bad in [
        String::new(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        "\"x\"".into(),
        with(&upper, "1", &sq, ""),
        with(&weak, "1", &sq, ""),
        with("[]", "1", &sq, ""),
        with("\"\"", "1", &sq, ""),
        with(&kq, "\"1\"", &sq, ""),
        with(&kq, "-1", &sq, ""),
        with(&kq, "1.5", &sq, ""),
        with(&kq, "1e9", &sq, ""),
        with(&kq, "true", &sq, ""),
        with(&kq, "null", &sq, ""),
        with(&kq, "9007199254740992", &sq, ""),
        with(&kq, "1", "5", ""),
        with(&kq, "1", "\"ab\"", ""),
        with(&kq, "1", &sq.to_uppercase(), ""),
        with(&kq, "1", &sq, ",\"nonce\":null"),
        with(&kq, "1", &sq, ",\"nonce\":\"short\""),
        with(&kq, "1", &sq, ",\"timestamp\":1"),
        with(&kq, "1", &sq, ",\"more\":1"),
        with(&kq, "1", &sq, "") + " x",
        format!("{{\"publicKey\":{kq},\"timestamp\":1}}"),
        "[".repeat(100_000),
    ] {
        let error = Proof::parse(&bad).unwrap_err();
        assert_eq!(error.code(), "proof-malformed", "{bad:.100}");
        assert!(error.to_string().starts_with("proof: "), "{error}");
    }
}

// Presenters

#[test]
fn a_presenter_is_bound_to_place_and_chain() {
    let (w, provider, tip) = (key(9).public(), p().public(), Some(Digest::of(b"tip")));
    let name = |text: &str| AgentName::new(text).unwrap();
    let once = nonce();
    let proof = Proof::present(&h(), &w, &provider, &name("a"), tip, &once, NOW);
    let here = SignedPresenter::verify(&proof, &w, &provider, &name("a"), tip).unwrap();
    assert_eq!((here.signer(), here.timestamp()), (h().public(), NOW.as_secs()));
    let digest = here.digest();
    let presented = here.fresh(NOW).unwrap();
    assert_eq!((presented.signer(), presented.digest(), presented.at()), (h().public(), digest, NOW));
    assert_eq!(presented.timestamp(), NOW.as_secs());

    let refused = |proof: &Proof, w: &PublicKey, p: &PublicKey, n: &str, tip| {
        let error = SignedPresenter::verify(proof, w, p, &name(n), tip).unwrap_err();
        assert_eq!(error.code(), "presenter-proof", "{error}");
    };
    refused(&proof, &x().public(), &provider, "a", tip);
    refused(&proof, &w, &x().public(), "a", tip);
    refused(&proof, &w, &provider, "b", tip);
    refused(&proof, &w, &provider, "a", None);
    refused(&proof, &w, &provider, "a", Some(Digest::of(b"other")));
    refused(&Proof { nonce: None, ..proof.clone() }, &w, &provider, "a", tip);
    refused(&Proof { nonce: Some(nonce()), ..proof.clone() }, &w, &provider, "a", tip);
    refused(&Proof { timestamp: NOW.as_secs() + 1, ..proof.clone() }, &w, &provider, "a", tip);
    refused(&Proof { public_key: x().public(), ..proof.clone() }, &w, &provider, "a", tip);
    // Signed over no nonce at all: the same bytes each time, so nothing tells two uses apart.
    let bare = Proof::present(&h(), &w, &provider, &name("a"), tip, "", NOW);
    refused(&Proof { nonce: None, ..bare }, &w, &provider, "a", tip);
    // An act's signature presents nothing.
    let act = Proof { nonce: Some(once), ..Proof::resolve(&h(), RUN, NOW) };
    refused(&act, &w, &provider, "a", tip);
}

// Consents

#[test]
fn a_consent_is_for_one_witness_one_name_and_one_address() {
    let (w, a) = (key(9).public(), AgentName::new("a").unwrap());
    let url = "https://agent.example/";
    let consent = Consent::parse(&Consent::sign(&p(), &w, &a, url).to_json()).unwrap();
    let signed = consent.verify(&w, &a, url).unwrap();
    assert_eq!((signed.provider(), signed.name(), signed.url()), (p().public(), &a, url));
    assert_eq!(signed.signature(), consent.signature);
    for other in [
        consent.verify(&x().public(), &a, url),
        consent.verify(&w, &AgentName::new("b").unwrap(), url),
        consent.verify(&w, &a, "https://agent.example"),
        Consent { provider: x().public(), ..consent }.verify(&w, &a, url),
    ] {
        assert_eq!(other.unwrap_err().code(), "act-signature");
    }
    let text = consent.to_json();
    for bad in ["", "[]", "{}", &text.replace("signature", "sig"), &text.replace('{', "{\"x\":\"1\",")] {
        assert_eq!(Consent::parse(bad).unwrap_err().code(), "proof-malformed", "{bad}");
    }
}

// Certificates

fn code<T>(result: Result<T, CertError>) -> Result<(), &'static str> {
    result.map(|_| ()).map_err(|error| error.code())
}

#[test]
fn a_certificate_lives_to_its_last_second() {
    let issued = SignedCertificate::issue(&h(), &sk().public(), 100);
    for (now, expect) in [(0, Ok(())), (99, Ok(())), (100, Ok(())), (101, Err("certificate-expired"))] {
        assert_eq!(code(issued.live(Moment::from_secs(now))), expect, "{now}");
        let recorded = ActingFor::recorded(sk().public(), h().public(), 100, Moment::from_secs(now));
        assert_eq!(code(recorded), expect);
    }
    let live = issued.live(Moment::from_secs(100)).unwrap();
    assert_eq!((live.delegate(), live.authority()), (sk().public(), h().public()));
}

#[test]
fn only_the_delegate_consents() {
    let issued = SignedCertificate::issue(&h(), &sk().public(), 100);
    assert!(!issued.accepted());
    assert_eq!(code(issued.clone().accept(&h())), Err("certificate-not-signer"));
    let accepted = issued.clone().accept(&sk()).unwrap();
    assert!(accepted.accepted());
    assert_eq!(accepted.id(), issued.id(), "consent does not make it another certificate");

    for good in [&issued, &accepted] {
        let read = Certificate::parse(&good.to_json()).unwrap().verify().unwrap();
        assert_eq!((read.raw(), read.accepted(), read.id()), (good.raw(), good.accepted(), good.id()));
        assert_eq!((read.authority(), read.delegate(), read.expires_at()), (h().public(), sk().public(), 100));
    }

    // The theft: B names H's key as its own delegate. H never consented, so
    // there is no acceptance, and one made by B or taken from elsewhere is wrong.
    let theft = SignedCertificate::issue(&x(), &h().public(), 100);
    assert!(!theft.accepted());
    for signer in [&x(), &sk()] {
        let forged = signer.sign(wikala_chain::payload::accept(&theft.id()).as_bytes()).to_hex();
        let raw = theft.raw().replace('}', &format!(",\"acceptance\":\"{forged}\"}}"));
        assert_eq!(code(Certificate::parse(&raw).unwrap().verify()), Err("certificate-signature"));
    }
    let elsewhere = SignedCertificate::issue(&p(), &h().public(), 100).accept(&h()).unwrap();
    let raw = elsewhere.raw().replacen(&p().public().to_hex(), &x().public().to_hex(), 1);
    assert_eq!(code(Certificate::parse(&raw).unwrap().verify()), Err("certificate-signature"));
}

#[test]
fn a_changed_certificate_is_not_signed() {
    let raw = SignedCertificate::issue(&h(), &sk().public(), 100).accept(&sk()).unwrap().to_json();
    for (from, to) in [
        (h().public().to_hex(), x().public().to_hex()),
        (sk().public().to_hex(), x().public().to_hex()),
        ("100".into(), "101".into()),
    ] {
        let changed = raw.replacen(&from, &to, 1);
        assert_ne!(raw, changed);
        assert_eq!(code(Certificate::parse(&changed).unwrap().verify()), Err("certificate-signature"));
    }
    // Any one-byte change: malformed, or not signed.
    for at in 0..raw.len() {
        let mut bytes = raw.clone().into_bytes();
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).unwrap(); // ASCII with one bit flipped is ASCII
        let verdict = code(Certificate::parse(&changed).and_then(Certificate::verify));
        assert!(verdict.is_err(), "byte {at}: {changed}");
    }
}

#[test]
fn a_certificate_has_one_shape_and_is_kept_as_received() {
    let raw = SignedCertificate::issue(&h(), &sk().public(), 100).accept(&sk()).unwrap().to_json();
    let protobuf = raw.replace(":100,", " : 100.0 , ");
    let read = Certificate::parse(&protobuf).unwrap().verify().unwrap();
    assert_eq!((read.raw(), read.to_json()), (protobuf.as_str(), protobuf.clone()));

    for bad in [
        String::new(),
        "null".into(),
        "{}".into(),
        format!("[{raw}]"),
        raw.replace(":100,", ":\"100\","),
        raw.replace(":100,", ":-1,"),
        raw.replace(":100,", ":1e2,"),
        raw.replace(":100,", ":null,"),
        raw.replace("expiresAt", "expires"),
        raw.replace("acceptance", "accepted"),
        raw.replace('}', ",\"scope\":1}"),
        raw.replace('}', ",\"expiresAt\":100}"),
        raw.replace(&h().public().to_hex(), &h().public().to_hex().to_uppercase()),
        raw.replace(&h().public().to_hex(), &format!("01{}", "00".repeat(31))),
        raw.replace("\"acceptance\":\"", "\"acceptance\":\"0"),
    ] {
        assert_eq!(code(Certificate::parse(&bad)), Err("certificate-malformed"), "{bad:.120}");
    }
    assert_eq!(CertError::not_accepted(&sk().public()).code(), "certificate-not-accepted");
    assert_eq!(CertError::not_signer(&h().public(), &sk().public()).code(), "certificate-not-signer");
}

/// The reference's published vectors (revision 11) through our types.
#[test]
fn the_contract_vectors_are_believed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/contract/contract-vectors.rev11.json");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let vector = |kind: &str| {
        let all = file["vectors"].as_array().unwrap();
        all.iter().find(|vector| vector["kind"] == kind).unwrap().clone()
    };
    let signer = &file["test_key"]["public_key_hex"];
    let proof = |kind: &str| {
        let v = vector(kind);
        let json = serde_json::json!({
            "publicKey": signer, "timestamp": v["inputs"]["timestamp"], "signature": v["signature_hex"],
        });
        Proof::parse(&json.to_string()).unwrap()
    };
    assert!(SignedAct::resolve(&proof("resolution"), RUN).is_ok());
    assert!(SignedAct::cancel(&proof("cancel"), RUN).is_ok());
    assert!(SignedAct::cancel(&proof("resolution"), RUN).is_err());

    let v = vector("delegation");
    let certificate = serde_json::json!({
        "authorityPublicKey": signer, "delegatePublicKey": v["inputs"]["delegate_public_key"],
        "expiresAt": v["inputs"]["expires_at"], "signature": v["signature_hex"],
    });
    let read = Certificate::parse(&certificate.to_string()).unwrap().verify().unwrap();
    assert!(read.live(NOW).is_ok() && !read.accepted());
}
