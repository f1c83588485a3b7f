//! `leasehold demo --wedge`: a lane that nothing wedges: not a killed worker, not a frozen one, not an abort.
//!
//! - [`turns`]: the tasks of the lane, and what their commands do
//! - [`play`], [`acts`], [`act`]: what happens, in order
//! - [`lane`]: what is to be seen of the lane meanwhile, read from Redis
//! - [`effects`], [`verdict`], [`report`]: what really ran, whether that is as it should be (both pure), and the end

mod act;
mod acts;
mod effects;
mod lane;
mod play;
mod report;
mod turns;
mod verdict;

use std::pin::pin;

use super::on_stage;
use super::show::Show;
use super::stage::Stage;
use crate::context::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::signals;
use verdict::Wedge;

/// Runs it.
pub(super) async fn run(context: &Context, keep: bool) -> Result<Exit> {
    let mut stop = pin!(signals::asked_to_stop());
    // Listens from here on: a signal during the set-up is seen after it, and finds something to end.
    let _ = futures::poll!(stop.as_mut());
    let show = Show::new(context.output);
    let playing = async |stage: &mut Stage| play::play(stage, &show).await;
    let (wedge, problems, left_over) = on_stage(context, &show, keep, stop, playing).await?;
    let wedge = verdict::close(Wedge { problems, left_over, ..wedge });
    report::print(context.output, &wedge)?;
    Ok(if wedge.ok { Exit::Success } else { Exit::Failed })
}
