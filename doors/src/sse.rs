//! Server-sent events, as both protocols' clients really read them: LF only, a
//! comment now and then, several frames a write, no buffering on the way.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many frames may wait for a reader, and how many bytes of them: a reader that
/// takes none costs this much memory and no more.
const WAITING: usize = 64;
const ROOM: usize = 256 * 1024;
/// How many bytes go into one write.
const WRITE: usize = 64 * 1024;
/// How long a reader may take none before it is dropped.
const SLOW: Duration = Duration::from_secs(30);

/// The writing end of a stream.
#[derive(Debug, Clone)]
pub struct Out {
    frames: mpsc::Sender<Frame>,
    room: Arc<Semaphore>,
}

/// A frame and the room it takes up while it waits.
type Frame = (Bytes, OwnedSemaphorePermit);

/// The reader is gone, or so slow that it was dropped.
#[derive(Debug)]
pub struct Gone;

impl Out {
    /// One event whose data is a line of JSON (as received, so it is checked for
    /// line ends: a CR or LF inside would break the framing).
    ///
    /// # Errors
    /// The reader is gone.
    pub async fn data(&self, json: &str) -> Result<(), Gone> {
        self.frame(None, json).await
    }

    /// One event with an `id:` line.
    ///
    /// # Errors
    /// The reader is gone.
    pub async fn numbered(&self, id: u64, event: Option<&str>, json: &str) -> Result<(), Gone> {
        let mut head = format!("id: {id}\n");
        if let Some(event) = event {
            head.push_str("event: ");
            head.push_str(event);
            head.push('\n');
        }
        self.frame(Some(head), json).await
    }

    /// One event with these header lines.
    ///
    /// # Errors
    /// The reader is gone.
    pub async fn frame(&self, head: Option<String>, json: &str) -> Result<(), Gone> {
        let mut frame = head.unwrap_or_default();
        frame.reserve(json.len() + 8);
        for line in json.split(['\n', '\r']) {
            // Between JSON tokens a line end is white space: a second data line says the same.
            frame.push_str("data: ");
            frame.push_str(line);
            frame.push('\n');
        }
        frame.push('\n');
        let bytes = Bytes::from(frame);
        // A frame larger than the room waits until all of it is free.
        let size = u32::try_from(bytes.len().min(ROOM)).unwrap_or(u32::MAX);
        let send = async {
            let room = self.room.clone().acquire_many_owned(size).await.map_err(|_| Gone)?;
            self.frames.send((bytes, room)).await.map_err(|_| Gone)
        };
        tokio::time::timeout(SLOW, send).await.unwrap_or(Err(Gone))
    }

    /// The reader hung up.
    pub async fn gone(&self) {
        self.frames.closed().await;
    }
}

/// A `200 text/event-stream` and its writing end. It ends when the last [`Out`] is dropped.
#[must_use]
pub fn response(keep_alive: Duration) -> (Out, Response) {
    let (out, frames) = mpsc::channel::<Frame>(WAITING);
    let stream = futures_util::stream::unfold(frames, move |mut frames| async move {
        let first = match tokio::time::timeout(keep_alive, frames.recv()).await {
            Ok(Some((frame, _room))) => frame,
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": keep-alive\n\n"),
        };
        let mut write = Vec::new();
        while write.len() + first.len() < WRITE
            && let Ok((frame, _room)) = frames.try_recv()
        {
            if write.is_empty() {
                write.extend_from_slice(&first);
            }
            write.extend_from_slice(&frame);
        }
        let write = if write.is_empty() { first } else { Bytes::from(write) };
        Some((Ok::<_, Infallible>(write), frames))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (Out { frames: out, room: Arc::new(Semaphore::new(ROOM)) }, response)
}
