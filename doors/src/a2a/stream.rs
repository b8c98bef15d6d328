//! SendStreamingMessage and SubscribeToTask. Each event is whole, in the envelope of its binding;
//! the first is the task. A stream ends with a last word or with an error frame,
//! never by falling silent in the middle: clients take that for a clean end.

use wikala_witness::RunId;

use super::call::{Call, Envelope, Said, name_run};
use super::draft::{Draft, Told};
use super::refused::Refused;
use super::send::{Story, closing, enter, read};
use super::task::{Sheet, Show, event, whole};
use crate::answer::{A2a, Method, Problem};
use crate::limits::Place;
use crate::sse::{self, Out};

/// How long an agent may take to its first word before the stream begins without it.
const FIRST_WORD: std::time::Duration = std::time::Duration::from_secs(5);

/// `SendStreamingMessage`: from the opening, or from the answer, to the next pause or
/// the end. A replayed answer is told the same continuation again.
pub(super) async fn send(call: &Call) -> Result<Said, Refused> {
    // Before the message is handed in: a run nobody may watch should not begin.
    let place = call.app.limits.streams.take(call.knock.peer)?;
    let entered = enter(call).await?;
    let mut story = Story::of(&call.app, entered.run.clone(), Draft::new(), call.agent.provider)?;
    story.duplicate = entered.duplicate;
    // Errors before the first event are plain answers, so it is heard before the stream begins.
    let mut settled = false;
    let wanted = entered.after;
    let next = async |story: &mut Story| -> Result<bool, Refused> {
        match story.next().await? {
            None => Err(Refused::from(closing()).about(entered.run.as_str())),
            Some(told) => Ok(told.iter().any(|told| matches!(told, Told::Paused | Told::Ended))),
        }
    };
    while story.draft.seq <= wanted {
        settled = next(&mut story).await? && story.draft.seq > wanted;
    }
    if entered.speaks_a2a {
        // The first word is the agent's own, a task or a message, if it comes soon.
        let own = async {
            while !settled && (story.draft.spoke <= wanted || story.draft.holds_back()) {
                settled = next(&mut story).await?;
            }
            Ok::<(), Refused>(())
        };
        if let Ok(heard) = tokio::time::timeout(FIRST_WORD, own).await {
            heard?;
        }
    }
    let sheet = story.sheet().await?;
    Ok(begin(call, story, sheet, entered.show, true, settled, place))
}

/// `SubscribeToTask`: the task as it is, then what follows; a pause does not end it.
pub(super) async fn subscribe(call: &Call) -> Result<Said, Refused> {
    let id = call.params()?.required("id")?;
    let watch = async {
        let run = RunId::parse(&id).ok_or_else(|| Refused::no_task(&id))?;
        let viewer = call.knock.viewer(&call.app).await?;
        let (draft, sheet) = read(&call.app, &run, viewer).await?;
        if sheet.view.agent != call.agent {
            return Err(Refused::no_task(&id));
        }
        if draft.state.is_terminal() {
            let sentence = "task: has ended, GetTask reads it";
            return Err(Refused::protocol(A2a::UnsupportedOperation, sentence));
        }
        let place = call.app.limits.streams.take(call.knock.peer)?;
        let story = Story::seen_by(&call.app, run, draft, viewer)?;
        Ok(begin(call, story, sheet, Show { history: None, artifacts: true }, false, false, place))
    };
    watch.await.map_err(|refused: Refused| refused.about(&id))
}

/// `settled`: the first event is the last.
fn begin(
    call: &Call,
    story: Story,
    sheet: Sheet,
    show: Show,
    ends_at_pause: bool,
    settled: bool,
    place: Place,
) -> Said {
    let (out, mut response) = sse::response(call.app.settings.keep_alive);
    name_run(&mut response, &sheet.view.run, &sheet.view.thread);
    let teller = Teller { envelope: call.envelope.clone(), out, sheet, ends_at_pause };
    tokio::spawn(async move {
        let _place = place;
        // Gone or told: either way there is nobody to tell any more. The run goes on.
        let _ = teller.tell(story, show, settled).await;
    });
    Said::Stream(response)
}

/// The writing side of one stream.
struct Teller {
    envelope: Envelope,
    out: Out,
    sheet: Sheet,
    ends_at_pause: bool,
}

impl Teller {
    async fn tell(mut self, mut story: Story, show: Show, settled: bool) -> Result<(), sse::Gone> {
        let first = whole(&story.draft, &self.sheet, show);
        self.result(&first).await?;
        if settled {
            return Ok(());
        }
        drop(first);
        story.draft.told_whole();
        loop {
            let told = tokio::select! {
                told = story.next() => told,
                () = self.out.gone() => return Ok(()),
            };
            let told = match told {
                Ok(Some(told)) => told,
                Ok(None) => return self.error(closing()).await,
                Err(refused) => return self.refused(&refused).await,
            };
            for told in told {
                let last = match told {
                    Told::Ended => true,
                    Told::Paused => self.ends_at_pause,
                    _ => false,
                };
                if matches!(told, Told::Paused) {
                    match story.sheet().await {
                        Ok(sheet) => self.sheet = sheet,
                        Err(refused) => return self.refused(&refused).await,
                    }
                }
                self.result(&event(&told, &story.draft, &self.sheet)).await?;
                if last {
                    return Ok(());
                }
            }
        }
    }

    async fn result(&self, result: &str) -> Result<(), sse::Gone> {
        self.out.data(&self.envelope.result(result)).await
    }

    async fn error(&self, problem: Problem) -> Result<(), sse::Gone> {
        self.refused(&Refused::from(problem).about(self.sheet.view.run.as_str())).await
    }

    async fn refused(&self, refused: &Refused) -> Result<(), sse::Gone> {
        // Bare, a no looks like one more event of the task: SDKs tell it by its event name.
        let head = matches!(self.envelope, Envelope::Rest).then(|| "event: error\n".to_owned());
        self.out.frame(head, &self.envelope.refused(refused, Method::Other)).await
    }
}
