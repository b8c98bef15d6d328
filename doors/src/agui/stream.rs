//! A caller's stream, from the record alone: live and replayed streams are the same telling,
//! and who joins is shown what it came to so far. The run does not end with it, and it never
//! ends before the run stands still.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use wikala_witness::{Entry, Mark, No, RunId};

use super::picture::Picture;
use super::teller::{Names, Teller, error};
use crate::answer::{Door, Problem};
use crate::fanout::Tail;
use crate::house::App;
use crate::limits::Place;
use crate::sse::{self, Gone, Out};

/// Who listens, from where on.
#[derive(Debug)]
pub(super) struct Audience {
    pub(super) run: RunId,
    /// Told from after this entry on.
    pub(super) after: u64,
    /// It joins a run that may have paused and gone on since, with this input.
    pub(super) joins: Option<String>,
    /// What it demands was demanded before.
    pub(super) duplicate: bool,
    pub(super) names: Names,
}

/// Begins the stream.
///
/// # Errors
/// `shutting-down`; the record cannot be read.
pub(super) async fn begin(app: &App, audience: Audience, place: Place) -> Result<Response, Problem> {
    let Audience { run, after, joins, duplicate, names } = audience;
    let known = run.clone();
    let mut view = app.readers.read(move |reader| reader.run_for_operator(&known)).await?;
    if let Some(owed) = view.owed.as_mut() {
        owed.duplicate |= duplicate;
    }
    let Some(mut tail) = Tail::of(app, run.clone(), after) else {
        return Err(Problem::door(Door::ShuttingDown, "house: closing, the run goes on, join it again in a moment"));
    };
    let (out, mut response) = sse::response(app.settings.keep_alive);
    for (name, id) in [("wikala-run-id", view.run.as_str()), ("wikala-thread-id", view.thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    let mut listener = Listener { app: app.clone(), run, out, teller: Teller::new(names, &view), join: None };
    if let Some(body) = joins {
        let known = listener.run.clone();
        let newest = app.readers.read(move |reader| reader.newest_entry(&known)).await?;
        let afresh = listener.teller.clone();
        listener.join = Some(Join { picture: Picture::of(&body), newest, afresh, legs: 0, joined: false });
    }
    tokio::spawn(async move {
        let _place = place;
        // Gone or told: either way there is nobody to tell any more. The run goes on.
        let _ = listener.listen(&mut tail).await;
    });
    Ok(response)
}

/// Somebody who listens to a run.
struct Listener {
    app: App,
    run: RunId,
    out: Out,
    teller: Teller,
    join: Option<Join>,
}

/// A late one: what was told so far is folded, and shown when it is caught up with.
struct Join {
    picture: Picture,
    /// The last entry there was when it came.
    newest: u64,
    /// As it was before the first entry.
    afresh: Teller,
    /// How many answers were heard.
    legs: usize,
    joined: bool,
}

impl Listener {
    async fn listen(mut self, tail: &mut Tail) -> Result<(), Gone> {
        loop {
            let recorded = tokio::select! {
                recorded = tail.next() => recorded,
                // Nobody listens any more. That is not a cancel: the run goes on.
                () = self.out.gone() => return Ok(()),
            };
            let recorded = match recorded {
                Ok(Some(recorded)) => recorded,
                // Clients take an end without a terminal event for success: never a
                // clean end while the run goes on.
                Ok(None) => {
                    let words = "house: closing, the run goes on, join it again in a moment";
                    return self.out.data(&error(words, "wikala.shutting-down")).await;
                }
                Err(no) => return self.fails(no).await,
            };
            let stands = match recorded.entry {
                Entry::Mark(Mark::Ended { .. }) => true,
                Entry::Mark(Mark::Paused { .. }) => self.join.is_none() || self.is_last(recorded.seq).await,
                _ => false,
            };
            let mut events = self.teller.hear(&recorded.entry);
            if let Some(join) = self.join.as_mut().filter(|join| !join.joined) {
                events.iter().for_each(|event| join.picture.hear(event));
                if matches!(recorded.entry, Entry::Mark(Mark::Answered { by_provider: false, .. })) {
                    join.legs += 1;
                    let (run, at) = (self.run.clone(), join.legs);
                    match self.app.readers.read(move |reader| reader.leg_for_operator(&run, at)).await {
                        Ok(leg) => leg.iter().for_each(|leg| join.picture.answered(&self.run, leg)),
                        Err(no) => return self.fails(no).await,
                    }
                }
                if !stands && (recorded.seq < join.newest || !join.picture.is_ready()) {
                    continue;
                }
                join.joined = true;
                match join.picture.show() {
                    Some(shown) => events = shown,
                    None => {
                        // From the first entry on, as everybody else was told.
                        self.teller = join.afresh.clone();
                        tail.rewind();
                        continue;
                    }
                }
            }
            for event in events {
                self.out.data(&event).await?;
            }
            if stands {
                return Ok(());
            }
        }
    }

    async fn fails(&self, no: No) -> Result<(), Gone> {
        let problem = Problem::from(no);
        self.out.data(&error(&problem.sentence, &format!("wikala.{}", problem.code.as_str()))).await
    }

    async fn is_last(&self, seq: u64) -> bool {
        let run = self.run.clone();
        let next = self.app.readers.read(move |reader| reader.entries_unchecked(&run, seq, 1)).await;
        next.map_or(true, |next| next.is_empty())
    }
}
