//! The rows of the table, in groups that are measured together.

mod callers;
mod calls;
mod cycle;
mod delayed;
mod depth;
mod flow;
mod idle;
mod latency;
mod leases;
mod memory;
mod pickup;

use crate::error::Result;
use crate::figure::{Detail, Figure};
use crate::lab::Lab;
use crate::plan::Row;
use crate::report::Report;

/// What a group of rows found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) figures: Vec<Figure>,
    pub(crate) details: Vec<Detail>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.figures.extend(other.figures);
        self.details.extend(other.details);
    }
}

/// Measures every row that is wanted.
pub(crate) async fn measure(lab: &Lab<'_>) -> Result<Report> {
    let mut found = Found::default();
    if lab.wants(&[Row::Cpu, Row::Discard, Row::Drain, Row::Client]) {
        found.add(Box::pin(cycle::measure(lab)).await?);
    }
    if lab.wants(&[Row::Calls]) {
        found.add(Box::pin(calls::measure(lab)).await?);
    }
    if lab.wants(&[Row::Flow]) {
        found.add(Box::pin(flow::measure(lab)).await?);
    }
    if lab.wants(&[Row::Enqueue]) {
        found.add(Box::pin(callers::measure(lab)).await?);
    }
    if lab.wants(&[Row::Pickup]) {
        found.add(Box::pin(pickup::measure(lab)).await?);
    }
    if lab.wants(&[Row::Queued, Row::Kept]) {
        found.add(Box::pin(memory::measure(lab)).await?);
    }
    if lab.wants(&[Row::Depth]) {
        found.add(Box::pin(depth::measure(lab)).await?);
    }
    if lab.wants(&[Row::Leases]) {
        found.add(Box::pin(leases::measure(lab)).await?);
    }
    if lab.wants(&[Row::Idle]) {
        found.add(Box::pin(idle::measure(lab)).await?);
    }
    if lab.wants(&[Row::Delayed]) {
        found.add(Box::pin(delayed::measure(lab)).await?);
    }
    // Last: what the rows before it did counts, too.
    if lab.wants(&[Row::Latency]) {
        found.add(Box::pin(latency::measure(lab)).await?);
    }
    found.figures.retain(|figure| lab.wants(&[figure.row]));
    found.details.retain(|detail| lab.wants(&[detail.row]));
    // In the order of the table, whatever was measured together.
    found.figures.sort_by_key(|figure| figure.row);
    found.details.sort_by_key(|detail| detail.row);
    Report::of(lab, found).await
}
