//! The one pass over JSON text behind [`crate::json`].
//!
//! Iterative, so nesting costs heap and is bounded; borrowed, so a body costs
//! no copies. It reads grammar (RFC 8259) and remembers keys; it gives no
//! meaning to numbers and strings.

use std::borrow::Cow;

use crate::json::{JsonError, MAX_DEPTH};

/// The members of a top-level object: key, raw value.
pub(crate) type Members<'t> = Vec<(Cow<'t, str>, &'t str)>;

/// Checks the whole text; gives the members if the value is an object.
pub(crate) fn scan(text: &str) -> Result<Option<Members<'_>>, JsonError> {
    Scan { text, bytes: text.as_bytes(), at: 0 }.document()
}

struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

/// An open object (and where its keys start on the key stack) or array.
enum Open {
    Object { first_key: usize },
    Array,
}

impl<'t> Scan<'t> {
    fn document(&mut self) -> Result<Option<Members<'t>>, JsonError> {
        let mut open: Vec<Open> = Vec::new();
        // Keys of all open objects, the innermost last. An object's keys are
        // sorted and compared when it closes: n log n, and no hash to flood.
        let mut keys: Vec<Cow<'t, str>> = Vec::new();
        let mut repeated: Option<String> = None;
        let mut members: Members<'t> = Vec::new();
        let mut value_start = 0;

        self.space();
        let is_object = self.peek() == Some(b'{');
        'value: loop {
            if is_object && open.len() == 1 {
                value_start = self.at;
            }
            match self.peek() {
                Some(b'{' | b'[') if open.len() == MAX_DEPTH => return Err(JsonError::TooDeep),
                Some(b'{') => {
                    self.step();
                    if !self.take(b'}') {
                        open.push(Open::Object { first_key: keys.len() });
                        keys.push(self.key()?);
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    self.step();
                    if !self.take(b']') {
                        open.push(Open::Array);
                        continue 'value;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has ended here, and each closing bracket ends one more.
            loop {
                if let (true, 1, Some(key)) = (is_object, open.len(), keys.last()) {
                    members.push((key.clone(), &self.text[value_start..self.at]));
                }
                self.space();
                match open.last() {
                    None if self.at == self.bytes.len() => {
                        return match repeated {
                            Some(key) => Err(JsonError::DuplicateKey(key)),
                            None => Ok(is_object.then_some(members)),
                        };
                    }
                    None => return Err(self.fault("data after the value")),
                    Some(Open::Object { first_key }) => {
                        if self.take(b',') {
                            keys.push(self.key()?);
                            continue 'value;
                        }
                        self.expect(b'}', "comma or closing brace expected")?;
                        let own = &mut keys[*first_key..];
                        own.sort_unstable();
                        if let Some(pair) = own.windows(2).find(|pair| pair[0] == pair[1]) {
                            repeated.get_or_insert_with(|| pair[0].to_string());
                        }
                        keys.truncate(*first_key);
                        open.pop();
                    }
                    Some(Open::Array) => {
                        if self.take(b',') {
                            continue 'value;
                        }
                        self.expect(b']', "comma or closing bracket expected")?;
                        open.pop();
                    }
                }
            }
        }
    }

    /// A key, its colon, and the space up to its value.
    fn key(&mut self) -> Result<Cow<'t, str>, JsonError> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.fault("key expected"));
        }
        let escaped = self.string()?;
        let raw = &self.text[start..self.at];
        let key = if escaped {
            // Half a surrogate pair has no text, so it cannot be compared.
            let decoded: Result<String, _> = serde_json::from_str(raw);
            Cow::Owned(decoded.map_err(|_| self.fault("key is not text"))?)
        } else {
            Cow::Borrowed(&raw[1..raw.len() - 1])
        };
        self.space();
        self.expect(b':', "colon expected")?;
        self.space();
        Ok(key)
    }

    /// A string, number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(0xef) if self.at == 0 => Err(self.fault("byte order mark")),
            Some(_) => Err(self.fault("value expected")),
            None => Err(self.fault("text ends early")),
        }
    }

    /// A string; whether it contains an escape.
    fn string(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                    return Err(self.fault("four hex digits expected"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.fault("unknown escape")),
                    }
                }
                Some(0..0x20) => return Err(self.fault("control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.fault("string ends early")),
            }
        }
    }

    /// `-? (0 | [1-9][0-9]*) (\.[0-9]+)? ([eE][+-]?[0-9]+)?`
    fn number(&mut self) -> Result<(), JsonError> {
        self.skip_one(b"-");
        if !self.skip_one(b"0") {
            self.digits()?;
        }
        if self.skip_one(b".") {
            self.digits()?;
        }
        if self.skip_one(b"eE") {
            self.skip_one(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("digit expected")) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.fault("value expected"));
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Past one byte and the space after it.
    fn step(&mut self) {
        self.at += 1;
        self.space();
    }

    /// Past this byte and the space after it, if it is next. A closing bracket
    /// keeps the space, so that a value's slice ends with the value.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
            if byte == b',' {
                self.space();
            }
        }
        found
    }

    fn skip_one(&mut self, any: &[u8]) -> bool {
        let found = self.peek().is_some_and(|b| any.contains(&b));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), JsonError> {
        if self.peek() != Some(byte) {
            return Err(self.fault(what));
        }
        self.at += 1;
        Ok(())
    }

    fn fault(&self, what: &'static str) -> JsonError {
        JsonError::Malformed(format!("{what} at byte {}", self.at))
    }
}
