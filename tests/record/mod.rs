//! The record alone, without a socket: `wikala_witness` by its verbs.

mod bounds;
mod certificates;
mod deadlines;
mod guards;
mod lineage;
mod promises;
mod races;
mod replays;
mod simulation;
mod threads;
mod turns;
