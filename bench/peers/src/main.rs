//! `make bench-peers`: Leasehold and two job queues of crates.io through the same job on one private Redis, each told
//! as a ratio to raw streams that were measured right before it. README.md says what is configured, and why.

mod server;
mod sides;
mod table;

use anyhow::{Context as _, Result, bail};
use server::{Counts, Server};
use sides::{Apalis, BullMq, Ours, Raw, Side};

/// Tasks of a round: apalis-redis moves all that is due by one `unpack`, which Lua ends at 8,000.
const TASKS: usize = 5000;
/// Rounds that count, after one that does not.
const ROUNDS: usize = 7;
/// Tasks whose memory is measured.
const QUEUED: usize = 200_000;

/// What filling and draining cost in one round.
struct Lap {
    fill: Counts,
    drain: Counts,
}

/// All that was found of one side: its laps, each with the raw one before it, and the bytes of a queued task.
struct Found {
    name: &'static str,
    laps: Vec<(Lap, Lap)>,
    bytes: f64,
}

async fn lap<S: Side>(server: &mut Server) -> Result<Lap> {
    server.ask::<()>(&["FLUSHALL", "SYNC"]).await?;
    let mut side = S::open(&server.url).await?;
    let before = server.counts().await?;
    side.fill(TASKS).await?;
    let fill = server.counts().await? - before;
    let drain = side.drain(TASKS, server).await.with_context(|| format!("draining {}", S::NAME))?;
    Ok(Lap { fill, drain })
}

async fn pair<S: Side>(server: &mut Server, found: &mut Found) -> Result<()> {
    let raw = lap::<Raw>(server).await?;
    found.laps.push((lap::<S>(server).await?, raw));
    Ok(())
}

async fn memory<S: Side>(server: &mut Server) -> Result<Found> {
    eprintln!("memory of {QUEUED} tasks: {}", S::NAME);
    lap::<S>(server).await?;
    server.ask::<()>(&["FLUSHALL", "SYNC"]).await?;
    let mut side = S::open(&server.url).await?;
    let empty = server.memory().await?;
    side.fill(QUEUED).await?;
    side.settle().await?;
    Ok(Found { name: S::NAME, laps: Vec::new(), bytes: (server.memory().await? - empty) / QUEUED as f64 })
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let page = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--update", page] => Some(page),
        _ => bail!("usage: leasehold-peers [--update PAGE]"),
    };
    let mut server = Server::start().await?;
    let raw = memory::<Raw>(&mut server).await?.bytes;
    let mut ours = memory::<Ours>(&mut server).await?;
    let mut bullmq = memory::<BullMq>(&mut server).await?;
    let mut apalis = memory::<Apalis>(&mut server).await?;
    for round in 0..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        pair::<Ours>(&mut server, &mut ours).await?;
        pair::<BullMq>(&mut server, &mut bullmq).await?;
        pair::<Apalis>(&mut server, &mut apalis).await?;
        if round == 0 {
            for found in [&mut ours, &mut bullmq, &mut apalis] {
                found.laps.clear();
            }
        }
    }
    let text = table::of(&[ours, bullmq, apalis], raw, &server.version().await?);
    print!("{text}");
    if let Some(page) = page {
        let old = std::fs::read_to_string(page).with_context(|| format!("reading {page}"))?;
        std::fs::write(page, table::replaced(&old, &text)?).with_context(|| format!("writing {page}"))?;
    }
    Ok(())
}
