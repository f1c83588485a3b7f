//! How long somebody has really been looking. A lease that lapsed while nobody looked proves nothing, so suspicion is
//! measured by a watch clock that stands still in gaps.

use super::rules::Rules;

/// No step between two sweeps may be longer, ms, nor longer than a beat.
const LONGEST_STEP_MS: u64 = 2000;

/// The reaper's pulse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pulse {
    /// The last sweep.
    last: u64,
    /// The watch clock.
    pub watch: u64,
    /// The last gap.
    gap: Option<Gap>,
}

/// A time in which nobody looked.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gap {
    /// By the watch clock.
    watch: u64,
    /// When it was found to be over.
    at: u64,
}

impl Pulse {
    /// Of a queue that is registered now.
    pub(super) fn new(now: u64) -> Self {
        Self { last: now, watch: 0, gap: None }
    }

    /// The pulse after a look now, and whether there was a gap before it.
    pub(super) fn advanced(mut self, now: u64, rules: &Rules) -> (Self, bool) {
        let longest = LONGEST_STEP_MS.min(rules.beat);
        let step = now - self.last;
        self.watch += step.min(longest);
        self.last = now;
        if step > longest {
            self.gap = Some(Gap { watch: self.watch, at: now });
        }
        (self, step > longest)
    }

    /// When the last gap was found to be over.
    pub(super) fn gap_at(&self) -> Option<u64> {
        self.gap.map(|gap| gap.at)
    }

    /// For how much longer a run must be watched whose lease was first missed at `missed`; 0 = its worker is dead. A gap
    /// after that look, or less than a lease before it, makes a whole lease of the beat.
    pub(super) fn suspicion_left(&self, missed: u64, rules: &Rules) -> u64 {
        let gap_counts = self.gap.is_some_and(|gap| gap.watch + rules.lease > missed);
        let needed = if gap_counts { rules.lease } else { rules.beat };
        needed.saturating_sub(self.watch - missed)
    }
}
