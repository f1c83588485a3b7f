//! What was found, as Markdown.

use anyhow::{Context as _, Result};

use crate::server::Counts;
use crate::{Found, Lap, QUEUED, ROUNDS, TASKS};

const BEGIN: &str = "<!-- peers:begin -->";
const END: &str = "<!-- peers:end -->";

/// The version of a crate that this was built with.
fn version(name: &str) -> &'static str {
    let name = format!("\nname = \"{name}\"\nversion = \"");
    let rest = include_str!("../Cargo.lock").split_once(&name).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("of unknown version")
}

fn row(found: &Found, raw_bytes: f64) -> [String; 7] {
    let median = |of: &dyn Fn(&(Lap, Lap)) -> f64| {
        let mut values: Vec<f64> = found.laps.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let sum = |lap: &Lap, of: fn(&Counts) -> f64| of(&lap.fill) + of(&lap.drain);
    let own = |of: fn(&Counts) -> f64| median(&|(own, _)| sum(own, of) / TASKS as f64);
    let ratio = |of: fn(&Counts) -> f64| median(&|(own, raw)| sum(own, of) / sum(raw, of));
    [
        format!("{} {}", found.name, version(found.name)),
        format!("{:.1}", ratio(|counts| counts.cpu)),
        format!("{:.3}", own(|counts| counts.scripts)),
        format!("{:.1} ({:.1})", own(|counts| counts.commands), ratio(|counts| counts.commands)),
        format!("{:.2}", median(&|(own, raw)| raw.fill.wall / own.fill.wall)),
        format!("{:.2}", median(&|(own, raw)| raw.drain.wall / own.drain.wall)),
        format!("{:.0} B ({:.1})", found.bytes, found.bytes / raw_bytes),
    ]
}

/// The table of what was found, and what it was found with.
pub(crate) fn of(all: &[Found], raw_bytes: f64, redis: &str) -> String {
    let titles = "queue|Redis CPU per task|script calls per task|commands per task, in scripts too|\
                  bulk enqueue rate|drain rate|memory per queued task";
    let mut rows = vec![titles.split('|').map(str::to_owned).collect::<Vec<_>>()];
    rows.extend(all.iter().map(|found| row(found, raw_bytes).to_vec()));
    let widths: Vec<usize> =
        (0..7).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    rows.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let cells = |row: &Vec<String>| -> String {
        row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |")).collect()
    };
    format!(
        "{}, Redis {redis}, {}, {} cores for server and clients together; medians of {ROUNDS} rounds of {TASKS} tasks, \
         memory of {QUEUED}.\nCPU, rates and numbers in brackets are ratios to raw streams; a raw entry takes \
         {raw_bytes:.0} B.\n\n{}",
        chrono::Local::now().format("%Y-%m-%d"),
        std::env::consts::ARCH,
        std::thread::available_parallelism().map_or(1, usize::from),
        rows.iter().map(|row| format!("|{}\n", cells(row))).collect::<String>(),
    )
}

/// The page with `table` in the place of what stands between the marks.
pub(crate) fn replaced(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("the page has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the page has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}
