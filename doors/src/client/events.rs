//! Server-sent events as they are really written: LF, CRLF or CR, comments, several
//! data lines, cut anywhere by the network. Bytes in, events out; no socket here.

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its `id:`, if it has one.
    pub id: Option<String>,
    /// Its `event:`, if it has one.
    pub kind: Option<String>,
    /// Its data.
    pub data: String,
}

/// Reads events out of bytes, each byte looked at once.
#[derive(Debug)]
pub(super) struct Reader {
    /// The longest event read, bytes.
    event: usize,
    waiting: Vec<u8>,
    /// Where the line that is not complete begins.
    line: usize,
    /// How far `waiting` was searched for its end.
    looked: usize,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
    id: Option<String>,
    kind: Option<String>,
    data: Option<String>,
}

impl Reader {
    /// A reader of events up to so many bytes.
    pub(super) fn up_to(event: usize) -> Self {
        Reader {
            event,
            waiting: Vec::new(),
            line: 0,
            looked: 0,
            after_cr: false,
            begun: false,
            id: None,
            kind: None,
            data: None,
        }
    }

    /// Takes what arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.waiting.drain(..self.line);
        self.looked -= self.line;
        self.line = 0;
        self.waiting.extend_from_slice(bytes);
    }

    /// The next complete event. What stands unfinished at the end of a stream is no event.
    ///
    /// # Errors
    /// Not UTF-8, or longer than is read.
    pub(super) fn next(&mut self) -> Result<Option<Event>, String> {
        while let Some(byte) = self.waiting.get(self.looked).copied() {
            self.looked += 1;
            let lf_of_crlf = byte == b'\n' && std::mem::take(&mut self.after_cr);
            if lf_of_crlf {
                self.line = self.looked;
                continue;
            }
            self.after_cr = byte == b'\r';
            if byte == b'\n' || byte == b'\r' {
                let line = &self.waiting[self.line..self.looked - 1];
                let line = std::str::from_utf8(line).map_err(|_| "stream: an event that is not UTF-8")?.to_owned();
                self.line = self.looked;
                if let Some(event) = self.take(&line)? {
                    return Ok(Some(event));
                }
            }
        }
        if self.waiting.len() - self.line > self.event {
            return Err("stream: an event without end".to_owned());
        }
        Ok(None)
    }

    /// One line; an empty one completes the event.
    fn take(&mut self, line: &str) -> Result<Option<Event>, String> {
        let line =
            if std::mem::replace(&mut self.begun, true) { line } else { line.strip_prefix('\u{feff}').unwrap_or(line) };
        if line.is_empty() {
            let (id, kind) = (self.id.take(), self.kind.take());
            return Ok(self.data.take().map(|data| Event { id, kind, data }));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.kind = Some(value.to_owned()),
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) if data.len() + value.len() > self.event => {
                    return Err("stream: an event without end".to_owned());
                }
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            // A comment (no name), or a field of a later day.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(Option<String>, Option<String>, String)> {
        let mut reader = Reader::up_to(1024);
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece);
            while let Some(event) = reader.next().unwrap() {
                events.push((event.id, event.kind, event.data));
            }
        }
        events
    }

    #[test]
    fn every_line_end_is_read_and_cut_anywhere() {
        let lf = ": hello\n\nid: 7\nevent: told\ndata: {\"a\":\ndata: \"é\"}\n\ndata\n\n: keep-alive\n\ndata:  x\n\ndata: unfinished\n";
        let expect = vec![
            (Some("7".to_owned()), Some("told".to_owned()), "{\"a\":\n\"é\"}".to_owned()),
            (None, None, String::new()),
            (None, None, " x".to_owned()),
        ];
        for text in [lf.to_owned(), lf.replace('\n', "\r\n"), lf.replace('\n', "\r"), format!("\u{feff}{lf}")] {
            let bytes = text.as_bytes();
            assert_eq!(read(&[bytes]), expect);
            assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>()), expect);
            for cut in 0..bytes.len() {
                assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), expect, "cut at {cut}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told() {
        let mut reader = Reader::up_to(1024);
        reader.push(b"data: \xff\n\n");
        assert!(reader.next().is_err());
    }
}
