//! An upstream's agent card: where it is called, how, and what it demands. Read for what
//! decides that; kept whole, as it came.

use serde_json::Value;
use wikala_chain::json;

use super::outbound::within;

/// The largest card, bytes: it stands on the roster and in the card of ours.
const CARD: usize = 1024 * 1024;

/// How requests to an agent are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// A2A 1.0 over JSON-RPC.
    JsonRpc,
    /// A2A 1.0 over HTTP+JSON.
    Rest,
    /// A2A 0.3 over JSON-RPC.
    Legacy,
}

/// What is to be known of an upstream before it can be called.
#[derive(Debug, Clone)]
pub struct Card {
    /// The card as received, JSON text.
    pub text: String,
    /// How it is called.
    pub binding: Binding,
    /// Where it is called.
    pub url: String,
    /// The tenant its interface names.
    pub tenant: Option<String>,
    /// It streams.
    pub streaming: bool,
    /// Extensions without which it answers nobody.
    pub required: Vec<String>,
    value: Value,
}

impl Card {
    /// Reads a card that was found at `from`.
    ///
    /// # Errors
    /// One sentence: no card, or none of its interfaces is one we speak.
    pub fn read(text: &str, from: &str) -> Result<Card, String> {
        if text.len() > CARD {
            return Err(format!("card: {} bytes, at most {CARD}", text.len()));
        }
        json::check(text).map_err(|error| format!("card: {error}"))?;
        let value: Value = serde_json::from_str(text).map_err(|_| "card: no JSON")?;
        let (binding, url, tenant) = interface(&value)
            .ok_or("card: no interface we speak, JSONRPC or HTTP+JSON of A2A 1.0, or JSONRPC of 0.3, expected")?;
        let url = within(from, &url).ok_or_else(|| {
            format!("card: it is called at {url}, which is not where it was found, add the agent with that address")
        })?;
        if url.contains(['?', '#']) {
            // Paths are appended to it.
            return Err(format!("card: {url} has a query or a fragment, an interface's address has none"));
        }
        let capabilities = &value["capabilities"];
        let required = capabilities["extensions"].as_array().into_iter().flatten();
        let required = required.filter(|extension| extension["required"] == true);
        let required = required.filter_map(|extension| extension["uri"].as_str().map(str::to_owned)).collect();
        Ok(Card {
            text: text.to_owned(),
            binding,
            url: url.trim_end_matches('/').to_owned(),
            tenant,
            streaming: capabilities["streaming"] == true,
            required,
            value,
        })
    }

    /// What the roster says about it, JSON text: as if its provider had registered it.
    #[must_use]
    pub fn registration(&self, name: &str) -> String {
        let description = self.value["description"].as_str().unwrap_or("");
        format!(
            "{{\"name\":{},\"description\":{},\"agentCardExtra\":{}}}",
            json::quote(name),
            json::quote(description),
            self.text.trim()
        )
    }
}

/// The first interface that we speak; the agent lists the one it prefers first.
fn interface(card: &Value) -> Option<(Binding, String, Option<String>)> {
    let listed = card["supportedInterfaces"].as_array().into_iter().flatten().find_map(|interface| {
        let binding = match interface["protocolBinding"].as_str()? {
            "JSONRPC" => Binding::JsonRpc,
            "HTTP+JSON" => Binding::Rest,
            _ => return None,
        };
        let version = interface["protocolVersion"].as_str().unwrap_or("1.0");
        let binding = match (version.split('.').next()?, binding) {
            ("1", binding) => binding,
            ("0", Binding::JsonRpc) => Binding::Legacy,
            _ => return None,
        };
        let tenant = interface["tenant"].as_str().filter(|tenant| !tenant.is_empty()).map(str::to_owned);
        Some((binding, interface["url"].as_str()?.to_owned(), tenant))
    });
    listed.or_else(|| {
        // A2A 0.3 writes its address beside its name.
        let url = card["url"].as_str()?.to_owned();
        let speaks = card["protocolVersion"].as_str()?.starts_with("0.")
            && matches!(card["preferredTransport"].as_str(), None | Some("JSONRPC"));
        speaks.then_some((Binding::Legacy, url, None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "http://a.example/.well-known/agent-card.json";

    fn read(interfaces: &str) -> Result<Card, String> {
        Card::read(&format!("{{\"name\":\"n\",\"supportedInterfaces\":{interfaces}}}"), FROM)
    }

    #[test]
    fn the_first_interface_we_speak_is_taken() {
        let card = read(
            r#"[{"url":"http://a.example/g","protocolBinding":"GRPC","protocolVersion":"1.0"},
                {"url":"http://a.example/r/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0","tenant":"t"},
                {"url":"http://a.example/j","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]"#,
        )
        .unwrap();
        assert_eq!((card.binding, card.url.as_str()), (Binding::Rest, "http://a.example/r"));
        assert_eq!((card.tenant.as_deref(), card.streaming), (Some("t"), false));
        let old = Card::read(r#"{"name":"n","url":"http://a.example/","protocolVersion":"0.3.0"}"#, FROM).unwrap();
        assert_eq!(old.binding, Binding::Legacy);
    }

    #[test]
    fn nothing_is_called_anywhere_else() {
        assert!(
            read(r#"[{"url":"http://b.example/","protocolBinding":"JSONRPC"}]"#).unwrap_err().contains("b.example")
        );
        assert!(read(r#"[{"url":"https://a.example/","protocolBinding":"JSONRPC"}]"#).is_err());
        for none in ["[]", "{}", r#"[{"url":"http://a.example/","protocolBinding":"JSONRPC","protocolVersion":"2.0"}]"#]
        {
            assert!(read(none).is_err(), "{none}");
        }
        assert!(Card::read("{\"name\":1,\"name\":2}", FROM).is_err());
        for odd in ["?q", "#f", "/x?q#f"] {
            let interface = format!(r#"[{{"url":"http://a.example/{odd}","protocolBinding":"HTTP+JSON"}}]"#);
            assert!(read(&interface).unwrap_err().contains("query"), "{odd}");
        }
        // It stands on the roster and in our own card of it.
        let large = format!(r#"[{{"url":"http://a.example/{}","protocolBinding":"JSONRPC"}}]"#, "x".repeat(CARD));
        assert!(read(&large).unwrap_err().starts_with("card: 10"));
    }
}
