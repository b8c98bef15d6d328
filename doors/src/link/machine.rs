//! The protocol of a link as a state machine: frames and `now` in, what to do out.
//! No socket inside, so every order of frames can be tried.

use wikala_certs::Moment;
use wikala_chain::{PublicKey, Signature, SigningKey, is_nonce, payload};
use wikala_witness::LinkId;

use super::frames::{Frame, Hello, error};
use super::ticket;

/// What the socket is to do.
#[derive(Debug)]
pub enum Do {
    /// Send a frame.
    Send(String),
    /// Close with 1008 and a reason.
    Close(String),
    /// Burn the ticket and attach; then tell the machine.
    Attach {
        /// The proved key.
        provider: PublicKey,
        /// Its ticket.
        ticket: String,
        /// Its declared capacity.
        capacity: Option<u64>,
        /// The welcome to send once attached.
        welcome: String,
    },
    /// A job for the desk.
    Desk(LinkId, PublicKey, Frame),
}

#[derive(Debug)]
enum State {
    Greeting,
    Attaching,
    Attached(LinkId, PublicKey),
}

/// One link.
#[derive(Debug)]
pub struct Machine<'a> {
    key: &'a SigningKey,
    secret: &'a [u8; 32],
    state: State,
}

impl<'a> Machine<'a> {
    /// A link that was just opened.
    #[must_use]
    pub fn new(key: &'a SigningKey, secret: &'a [u8; 32]) -> Self {
        Machine { key, secret, state: State::Greeting }
    }

    /// It may still only greet.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        matches!(self.state, State::Greeting)
    }

    /// The desk attached it.
    pub fn attached(&mut self, link: LinkId, provider: PublicKey) {
        self.state = State::Attached(link, provider);
    }

    /// One frame came in.
    pub fn read(&mut self, text: &str, now: Moment, admitted: impl Fn(&PublicKey) -> bool) -> Do {
        let frame = match Frame::parse(text) {
            Ok(frame) => frame,
            // A stranger's nonsense ends the conversation; a provider's is told, and it goes on.
            Err(unread) if !matches!(self.state, State::Attached(..)) => return Do::Close(unread.sentence),
            Err(unread) => return Do::Send(error(&unread.sentence, unread.run.as_deref())),
        };
        match (&self.state, frame) {
            (State::Greeting, Frame::Hello(hello)) => match self.greet(&hello, now, admitted) {
                Ok(step) => {
                    self.state = State::Attaching;
                    step
                }
                Err(reason) => Do::Close(reason),
            },
            (State::Attached(link, provider), frame) if !matches!(frame, Frame::Hello(_)) => {
                Do::Desk(*link, *provider, frame)
            }
            _ => Do::Close("hello: comes first, and once".to_owned()),
        }
    }

    /// A proof over our key and our ticket: neither a recording nor a relay to
    /// another witness opens a link.
    fn greet(&self, hello: &Hello, now: Moment, admitted: impl Fn(&PublicKey) -> bool) -> Result<Do, String> {
        let provider = PublicKey::from_hex(&hello.public_key).map_err(|error| format!("hello: publicKey {error}"))?;
        if !admitted(&provider) {
            return Err(format!("not-admitted: {} is not on the admission list", provider.fingerprint()));
        }
        if !ticket::is_valid(self.secret, &provider, &hello.ticket, now) {
            return Err("hello: ticket is not valid for this key now, POST /tickets for a new one".to_owned());
        }
        if !is_nonce(&hello.nonce) {
            return Err("hello: nonce is not 32 lower-case hex".to_owned());
        }
        let proof = Signature::from_hex(&hello.proof).map_err(|_| "hello: proof is not 128 lower-case hex")?;
        let signed = payload::connect_provider(&self.key.public(), &hello.ticket, &hello.nonce);
        provider
            .verify(signed.as_bytes(), &proof)
            .map_err(|_| format!("hello: proof does not hold under {}", provider.fingerprint()))?;
        let answer = self.key.sign(payload::connect_witness(&hello.ticket, &hello.nonce).as_bytes());
        let welcome = format!(
            "{{\"type\":\"welcome\",\"funduqPublicKey\":\"{}\",\"answer\":\"{}\"}}",
            self.key.public(),
            answer.to_hex()
        );
        Ok(Do::Attach { provider, ticket: hello.ticket.clone(), capacity: hello.capacity, welcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [9; 32];

    fn hello(provider: &SigningKey, witness: &SigningKey, ticket: &str) -> String {
        let nonce = "ab".repeat(16);
        let proof = provider.sign(payload::connect_provider(&witness.public(), ticket, &nonce).as_bytes());
        format!(
            r#"{{"type":"hello","version":4,"publicKey":"{}","ticket":"{ticket}","nonce":"{nonce}","proof":"{}"}}"#,
            provider.public(),
            proof.to_hex()
        )
    }

    #[test]
    fn only_the_tickets_own_key_with_a_proof_for_this_witness_is_welcome() {
        let (witness, other) = (SigningKey::from_seed([1; 32]), SigningKey::from_seed([2; 32]));
        let (provider, stranger) = (SigningKey::from_seed([3; 32]), SigningKey::from_seed([4; 32]));
        let now = Moment::from_secs(1_790_000_000);
        let ticket = ticket::issue(&SECRET, &provider.public(), now, [0; 4]);
        let read = |text: &str, now, admit: bool| Machine::new(&witness, &SECRET).read(text, now, |_| admit);
        assert!(matches!(read(&hello(&provider, &witness, &ticket), now, true), Do::Attach { .. }));
        assert!(matches!(read(&hello(&provider, &witness, &ticket), now, false), Do::Close(_)));
        assert!(matches!(read(&hello(&stranger, &witness, &ticket), now, true), Do::Close(_)));
        assert!(matches!(read(&hello(&provider, &other, &ticket), now, true), Do::Close(_)));
        assert!(matches!(read(&hello(&provider, &witness, &ticket), now.plus(61), true), Do::Close(_)));
        for nonsense in ["", "{}", r#"{"type":"finish","runId":"run_0123456789abcdef01234567"}"#] {
            assert!(matches!(read(nonsense, now, true), Do::Close(_)));
        }
    }

    #[test]
    fn an_attached_link_is_told_about_nonsense_and_may_not_greet_again() {
        let (witness, provider) = (SigningKey::from_seed([1; 32]), SigningKey::from_seed([3; 32]));
        let now = Moment::from_secs(1_790_000_000);
        let mut machine = Machine::new(&witness, &SECRET);
        machine.attached(LinkId(1), provider.public());
        assert!(matches!(machine.read("{}", now, |_| true), Do::Send(_)));
        let ticket = ticket::issue(&SECRET, &provider.public(), now, [0; 4]);
        assert!(matches!(machine.read(&hello(&provider, &witness, &ticket), now, |_| true), Do::Close(_)));
    }
}
