//! The proof bag (wire.md): what a request brings along beside its words. Read
//! once, everything parsed and every signature checked here, off the desk; what
//! leaves is proof values and the caller's own members, untouched.

use serde_json::value::RawValue;
use wikala_certs::{Cancel, Certificate, Proof, Resolve, SignedAct, SignedCertificate, SignedPresenter};
use wikala_chain::{Chain, Digest, PrefixCache, PublicKey, RawObject, VerifiedChain, json};
use wikala_witness::obligation::{Demanded, Owed};
use wikala_witness::{AgentId, Caller, Consented, Delivery, Presenting, RunView};

use crate::answer::{Door, Problem};
use crate::obligations;
use crate::presenter::HttpSigner;

/// Where the witness's own words stand on A2A.
pub const URN: &str = "urn:wikala:witness:1";
/// Where the reference's clients put the run an interjection joins.
pub const REFERENCE_ADDRESSED: &str = "https://github.com/hukaichun/funduq/ext/interjection/v1/addressedRunId";

/// Keys only we or a provider may write: a caller that sends them is not believed.
const RESERVED: [&str; 6] = ["interrupts", "pendingToolCalls", "failureReason", "funduq", "wikala", URN];
/// Keys of the bag itself. What is delivered is rebuilt from the record.
const OURS: [&str; 8] = [
    "actorChain",
    "delegation",
    "presenter",
    "resolution",
    "cancel",
    "vouchers",
    "addressedRunId",
    REFERENCE_ADDRESSED,
];

/// What a request brought along.
#[derive(Debug, Default)]
pub struct Bag {
    chain: Option<VerifiedChain>,
    certificate: Option<SignedCertificate>,
    presenter: Option<Proof>,
    resolution: Option<Proof>,
    cancel: Option<Proof>,
    /// JSON text.
    pub vouchers: Option<String>,
    /// The live run an interjection joins.
    pub addressed: Option<String>,
}

impl Bag {
    /// Reads a bag: JSON text of an object, or nothing. A value that is no object
    /// carries no proofs.
    ///
    /// # Errors
    /// Malformed members and signatures that do not hold, by their codes.
    pub fn read(text: Option<&str>, cache: &PrefixCache) -> Result<Bag, Problem> {
        let Some(text) = text else { return Ok(Bag::default()) };
        if !text.trim_start().starts_with('{') {
            return Ok(Bag::default());
        }
        let members = RawObject::parse(text)?;
        let present = |name: &str| members.get(name).map(RawValue::get).filter(|raw| *raw != "null");
        let proof = |name: &str| present(name).map(Proof::parse).transpose();
        let text_of = |name: &str| -> Result<Option<String>, Problem> {
            match present(name) {
                None => Ok(None),
                Some(raw) => json::string(raw)
                    .map(Some)
                    .ok_or_else(|| Problem::door(Door::BodyMalformed, format!("{name}: not a string, send a run id"))),
            }
        };
        let addressed = match text_of("addressedRunId")? {
            Some(addressed) => Some(addressed),
            None => text_of(REFERENCE_ADDRESSED)?,
        };
        // Shapes before signatures: a malformed proof is told as one even beside a bad chain.
        let (presenter, resolution, cancel) = (proof("presenter")?, proof("resolution")?, proof("cancel")?);
        let certificate = present("delegation").map(Certificate::parse).transpose()?;
        let chain = match present("actorChain") {
            None => None,
            Some(raw) => Chain::parse_json(raw)?,
        };
        Ok(Bag {
            chain: chain.map(|chain| chain.verify(cache)).transpose()?,
            certificate: certificate.map(Certificate::verify).transpose()?,
            presenter,
            resolution,
            cancel,
            vouchers: present("vouchers").map(str::to_owned),
            addressed: addressed.filter(|id| !id.is_empty()),
        })
    }

    /// A bag of one certificate, as our own routes bring it.
    ///
    /// # Errors
    /// As [`Bag::read`].
    pub fn of_certificate(text: Option<&str>) -> Result<Bag, Problem> {
        let certificate = text.filter(|raw| *raw != "null").map(Certificate::parse).transpose()?;
        Ok(Bag { certificate: certificate.map(Certificate::verify).transpose()?, ..Bag::default() })
    }

    /// An answer's proof came along.
    #[must_use]
    pub fn has_resolution(&self) -> bool {
        self.resolution.is_some()
    }

    /// For whom the answer's proof speaks, as claimed: the certificate's authority if
    /// it names the signer, else the signer.
    #[must_use]
    pub fn resolution_authority(&self) -> Option<PublicKey> {
        self.resolution.as_ref().map(|proof| self.authority_of(proof.public_key))
    }

    fn authority_of(&self, key: PublicKey) -> PublicKey {
        match &self.certificate {
            Some(certificate) if certificate.delegate() == key => certificate.authority(),
            _ => key,
        }
    }

    /// Takes the answer's proof found elsewhere (`resume[].metadata.resolution`).
    ///
    /// # Errors
    /// `proof-malformed` if the request holds two that differ: which one would count?
    pub fn add_resolution(&mut self, text: &str) -> Result<(), Problem> {
        let proof = Proof::parse(text)?;
        if self.resolution.as_ref().is_some_and(|known| *known != proof) {
            return Err(Problem::door(Door::ProofMalformed, "resolution: several in one request differ, send one"));
        }
        self.resolution = Some(proof);
        Ok(())
    }

    /// Takes a certificate found elsewhere (`resume[].metadata.delegation`).
    ///
    /// # Errors
    /// `certificate-malformed` if the request holds two that differ, `certificate-signature`.
    pub fn add_delegation(&mut self, text: &str) -> Result<(), Problem> {
        let certificate = Certificate::parse(text)?;
        let certificate = certificate.verify()?;
        if self.certificate.as_ref().is_some_and(|known| known.id() != certificate.id()) {
            let sentence = "delegation: several in one request differ, send one";
            return Err(Problem::door(Door::CertificateMalformed, sentence));
        }
        // The same certificate once with and once without consent: the consent counts.
        if self.certificate.as_ref().is_none_or(|known| !known.accepted()) {
            self.certificate = Some(certificate);
        }
        Ok(())
    }

    /// The chain's effective key at the head and the presenter, for finding an alias
    /// before the desk decides: (hop 0's signer, last hop's or the request's signer).
    /// `key`: who signed the request or was vouched for.
    #[must_use]
    pub fn stand(&self, key: Option<PublicKey>) -> (Option<PublicKey>, Option<PublicKey>) {
        let head = self.chain.as_ref().map(|chain| self.authority_of(chain.head().0));
        let presenter = self
            .chain
            .as_ref()
            .map(|chain| chain.presenter().0)
            .or_else(|| self.presenter.as_ref().map(|proof| proof.public_key))
            .or(key)
            .map(|key| self.authority_of(key));
        (head, presenter)
    }

    /// Nobody signed anything here.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.chain.is_none() && self.presenter.is_none()
    }

    /// The right to answer `run`, verified for the key it names.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn resolve_act(&self, run: &str) -> Result<Option<SignedAct<Resolve>>, Problem> {
        Ok(self.resolution.as_ref().map(|proof| SignedAct::resolve(proof, run)).transpose()?)
    }

    /// The right to stop `run`, verified for the key it names.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn cancel_act(&self, run: &str) -> Result<Option<SignedAct<Cancel>>, Problem> {
        Ok(self.cancel.as_ref().map(|proof| SignedAct::cancel(proof, run)).transpose()?)
    }

    /// The certificate with what its delegate consented to in this request.
    #[must_use]
    pub fn consented(&self, http: Option<&HttpSigner>) -> Option<Consented> {
        let certificate = self.certificate.clone()?;
        let by_request = http.is_some_and(|signer| signer.covers_body && signer.key == certificate.delegate());
        Some(Consented { certificate, by_request })
    }

    /// Who stands at an agent's door with this bag.
    ///
    /// # Errors
    /// `presenter-proof` for a proof made for another witness, agent or chain.
    pub fn caller(
        &self,
        witness: &PublicKey,
        agent: &AgentId,
        http: Option<HttpSigner>,
        vouched: Option<PublicKey>,
    ) -> Result<Caller, Problem> {
        let certificate = self.consented(http.as_ref());
        let tip: Option<Digest> = self.chain.as_ref().map(VerifiedChain::tip);
        let presenter = match (&self.presenter, http, vouched) {
            (Some(proof), _, _) => {
                Presenting::Signed(SignedPresenter::verify(proof, witness, &agent.provider, &agent.name, tip)?)
            }
            (None, Some(signer), _) => Presenting::Signed(signer.signed),
            (None, None, Some(key)) => Presenting::Vouched(key),
            (None, None, None) => Presenting::Nobody,
        };
        Ok(Caller { chain: self.chain.clone(), certificate, presenter })
    }
}

/// The text is an object that holds a member of the bag.
#[must_use]
pub fn carries(text: &str) -> bool {
    RawObject::parse(text).is_ok_and(|members| OURS.iter().any(|name| members.get(name).is_some()))
}

/// A caller's value without the bag and without what only we may write, every other byte
/// as it came; `None` if nothing else is left.
#[must_use]
pub fn without_bag(text: &str) -> Option<String> {
    let gone: Vec<(&str, Option<&str>)> = RESERVED.iter().chain(&OURS).map(|name| (*name, None)).collect();
    let Ok(left) = json::edit(text, &gone) else { return Some(text.to_owned()) };
    let empty = RawObject::parse(&left).is_ok_and(|members| members.is_empty());
    (!empty || left == text).then_some(left)
}

/// The bag as delivered to an agent: the caller's own members as they came, and from the
/// record the chain with our hop, the certificate, the vouchers, the addressed run. Never a
/// presenter proof, a resolution or a cancel: those were for us. `None`: there was nothing
/// and there is nothing to add.
#[must_use]
pub fn delivered(callers: Option<&str>, delivery: &Delivery) -> Option<String> {
    let addressed = delivery.addressed.as_deref().map(json::quote);
    let owed = delivery.owed.as_ref().map(demanded);
    let ours = [
        ("actorChain", delivery.chain.as_deref()),
        ("delegation", delivery.delegation.as_deref()),
        ("vouchers", delivery.vouchers.as_deref()),
        ("addressedRunId", addressed.as_deref()),
    ];
    let callers = callers.map(str::trim).filter(|raw| *raw != "null");
    if callers.is_none() && owed.is_none() && ours.iter().all(|(_, value)| value.is_none()) {
        return None;
    }
    let mut edits: Vec<(&str, Option<&str>)> = ours.to_vec();
    // Where nothing was demanded of it, what a caller says under that name is its own word.
    edits.extend(owed.as_deref().map(|owed| (obligations::EXTENSION, Some(owed))));
    let gone = RESERVED.iter().chain(&OURS).filter(|name| !ours.iter().any(|(known, _)| known == *name));
    edits.extend(gone.map(|name| (*name, None)));
    // What is no object carries no bag, and has no place for one.
    json::edit(callers.unwrap_or("{}"), &edits).ok().or_else(|| callers.map(str::to_owned))
}

/// What an agent must know to answer what it owes, JSON text: the binding that its response
/// repeats, and the spec as it was signed.
fn demanded(demanded: &Demanded) -> String {
    let mut words = stands(&demanded.owed);
    let payload: serde_json::Value = serde_json::from_str(&demanded.payload).unwrap_or_default();
    words["obligation"] = payload["obligation"].clone();
    words.to_string()
}

/// An obligation as it stands, for who reads its task.
#[must_use]
pub fn stands(owed: &Owed) -> serde_json::Value {
    let mut words = serde_json::json!({
        "v": 1, "obligation_id": owed.id.as_str(), "state": owed.state.as_str(), "revision": owed.revision,
        "request_event_id": owed.event.as_str(), "request_digest": owed.request.to_hex(),
    });
    if owed.duplicate {
        words["duplicate"] = true.into();
    }
    words
}

/// The witness's own words about a run, for A2A `metadata[URN]` and AG-UI
/// `metadata.wikala`: JSON text. `thread` and `run` are what this reader knows them by.
#[must_use]
pub fn outward(view: &RunView) -> serde_json::Value {
    let asks: Vec<&str> = view
        .asks
        .iter()
        .filter(|ask| ask.closed_at.is_none())
        .flat_map(|ask| ask.items.iter().map(|item| item.id.as_str()))
        .collect();
    let authorities: Vec<String> = view.authorities.iter().map(PublicKey::to_hex).collect();
    let mut words = serde_json::json!({
        "runId": view.run.as_str(), "threadId": view.thread.as_str(), "asks": asks, "authorities": authorities,
    });
    // The hop we signed: who pins our key can check where this work went.
    if let Some(hop) = view.chain.as_deref().and_then(|chain| serde_json::from_str::<Vec<String>>(chain).ok()?.pop()) {
        words["dispatch"] = hop.into();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::SigningKey;

    #[test]
    fn proofs_and_what_only_we_may_write_go_no_further() {
        let mut text = "{\"theirs\":1.0".to_owned();
        for name in OURS.iter().chain(&RESERVED) {
            text.push_str(&format!(",{}:{{}}", json::quote(name)));
        }
        text.push('}');
        assert_eq!(without_bag(&text).as_deref(), Some("{\"theirs\":1.0}"));
        for text in ["[]", "\"text\"", "{}"] {
            assert_eq!(without_bag(text).as_deref(), Some(text), "no bag, and nothing of it");
        }
        assert_eq!(without_bag("{\"cancel\":1}"), None);
    }

    #[test]
    fn a_request_consents_only_if_the_delegate_signed_its_body() {
        let (head, session) = (SigningKey::from_seed([1; 32]), SigningKey::from_seed([2; 32]));
        let certificate = SignedCertificate::issue(&head, &session.public(), 2_000_000_000);
        let bag = Bag::of_certificate(Some(certificate.raw())).unwrap();
        let signed = |key: &SigningKey, covers_body| HttpSigner {
            signed: SignedPresenter::from_http(key.public(), 1, Digest::ZERO),
            covers_body,
            key: key.public(),
        };
        let by_request = |signer: Option<HttpSigner>| bag.consented(signer.as_ref()).unwrap().by_request;
        assert!(by_request(Some(signed(&session, true))));
        assert!(!by_request(Some(signed(&session, false))), "it did not sign what is in the body");
        assert!(!by_request(Some(signed(&head, true))), "somebody else signed the body");
        assert!(!by_request(None));
    }
}
