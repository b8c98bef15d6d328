//! A small pool of read-only connections, off the async threads. Reads see the
//! last commit and never wait for the desk.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use wikala_witness::{Fault, No, OpenFault, Policy, Reader, Witness};

/// How many reads run at once.
const READERS: usize = 4;

/// The pool.
#[derive(Debug, Clone)]
pub struct Readers {
    free: Arc<Mutex<Vec<Reader>>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    /// Opens the connections.
    ///
    /// # Errors
    /// As [`Witness::reader`].
    pub fn open(path: &Path, policy: &Policy) -> Result<Self, OpenFault> {
        let mut free = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            free.push(Witness::reader(path, policy.clone())?);
        }
        Ok(Readers { free: Arc::new(Mutex::new(free)), turns: Arc::new(Semaphore::new(READERS)) })
    }

    /// Reads, all of it from one moment of the record.
    ///
    /// # Errors
    /// What the reader said.
    pub async fn read<T: Send + 'static>(
        &self,
        verb: impl FnOnce(&Reader) -> Result<T, No> + Send + 'static,
    ) -> Result<T, No> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Fault::Corrupt("readers"))?;
        let free = self.free.clone();
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let reader = free.lock().ok().and_then(|mut free| free.pop()).ok_or(Fault::Corrupt("readers"))?;
            // A verb that panics must not cost the pool its connection.
            let told = || reader.snapshot(verb);
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(told))
                .unwrap_or(Err(Fault::Corrupt("reader").into()));
            if let Ok(mut free) = free.lock() {
                free.push(reader);
            }
            said
        })
        .await
        .unwrap_or(Err(Fault::Corrupt("reader").into()))
    }
}
