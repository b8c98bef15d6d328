//! One run on its way through an upstream: what is said about it goes to the desk, and
//! nowhere else, by the road a link's frames take.

use tokio::sync::watch;
use wikala_certs::Moment;
use wikala_witness::{Delivery, Fact, LinkId, No, UpstreamNames, Witness, Words};

use super::outbound::Failed;
use crate::house::App;
use crate::obligations::asked;

/// One leg of a run, taken.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) app: App,
    pub(super) link: LinkId,
    pub(super) delivery: Delivery,
    /// True once somebody entitled asked it to stop.
    pub(super) stop: watch::Receiver<bool>,
}

/// The record takes no more words about it: it has ended, or is not ours any more.
#[derive(Debug)]
pub(super) struct Over;

impl Run {
    /// Puts an event on record, with what it tells about the upstream's own names.
    pub(super) async fn event(&self, mut fact: Fact, words: Words, names: UpstreamNames) -> Result<(), Over> {
        let asked = asked::read(&self.app, &self.delivery.run, &mut fact).await;
        let (link, run, thread) = (self.link, self.delivery.run.clone(), self.delivery.thread.clone());
        self.say(move |witness, now| {
            witness.name_upstream(&thread, &run, &names)?;
            witness.event(now, link, &run, fact, words, None).map(|_| ())
        })
        .await?;
        if asked {
            asked::read_back(&self.app, &self.delivery.run).await;
        }
        Ok(())
    }

    /// It cannot go on, in our words.
    pub(super) async fn fail(&self, reason: String) {
        let (link, run) = (self.link, self.delivery.run.clone());
        tracing::info!(%run, reason, "a run at an upstream has failed");
        // Over already: then there is nothing to fail.
        let _ = self.say(move |witness, now| witness.fail(now, link, &run, &reason)).await;
    }

    /// It gave no answer.
    pub(super) async fn failed(&self, failed: &Failed) {
        self.fail(failed.reason()).await;
    }

    /// This leg is done. One that did not end by itself has failed, or was cancelled if
    /// that was asked.
    pub(super) async fn finish(&self) {
        let (link, run) = (self.link, self.delivery.run.clone());
        let _ = self.say(move |witness, now| witness.finish(now, link, &run)).await;
    }

    async fn say(
        &self,
        verb: impl FnOnce(&mut Witness, Moment) -> Result<(), No> + Send + 'static,
    ) -> Result<(), Over> {
        self.app.desk.ask(verb).await.map_err(|no| {
            if let No::Fault(fault) = no {
                tracing::error!(%fault, run = %self.delivery.run, "an upstream's words could not be recorded");
            }
            Over
        })
    }
}
