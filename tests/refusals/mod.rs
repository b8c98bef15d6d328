//! Every refusal code of the house through every door it has, on both protocols where
//! it applies, and after each the record row for row what it was. Run it with
//! `--nocapture` to read the table.

mod acts;
mod bodies;
mod codes;
mod limits;
mod obligations;
mod policies;
mod presenters;
mod stage;
mod table;
mod targets;

use table::Table;

#[tokio::test]
async fn every_code_at_every_door_it_has_and_nothing_on_record_moves() {
    let mut table = Table::default();
    presenters::chains(&mut table).await;
    presenters::proofs(&mut table).await;
    presenters::signed_requests(&mut table).await;
    presenters::certificates(&mut table).await;
    acts::answers(&mut table).await;
    acts::lanes(&mut table).await;
    acts::cancels(&mut table).await;
    acts::afterwards(&mut table).await;
    acts::away(&mut table).await;
    targets::unknown(&mut table).await;
    targets::threads(&mut table).await;
    targets::fingerprints(&mut table).await;
    bodies::shapes(&mut table).await;
    limits::counted(&mut table).await;
    limits::admission(&mut table).await;
    limits::a_record_that_does_not_take_it(&mut table).await;
    limits::a_closing_house(&mut table).await;
    obligations::demands(&mut table).await;
    obligations::routes(&mut table).await;
    policies::bound_answers(&mut table).await;
    policies::optional_presenters(&mut table).await;
    policies::reads_by_parties(&mut table).await;
    policies::gateway(&mut table).await;
    table.close();
}
