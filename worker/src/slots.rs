//! Free slots of a worker, over all its queues.

use tokio::sync::watch;

/// How many tasks may run at once in the whole worker.
#[derive(Debug)]
pub(crate) struct Slots {
    free: watch::Sender<usize>,
}

impl Slots {
    /// So many slots.
    pub(crate) fn new(total: usize) -> Self {
        Self { free: watch::Sender::new(total) }
    }

    /// Takes up to `most` slots.
    pub(crate) fn reserve(&self, most: usize) -> usize {
        let mut taken = 0;
        self.free.send_if_modified(|free| {
            taken = most.min(*free);
            *free -= taken;
            false
        });
        taken
    }

    /// Gives slots back.
    pub(crate) fn release(&self, count: usize) {
        if count > 0 {
            self.free.send_modify(|free| *free += count);
        }
    }

    /// Waits until a slot is free. Cancel-safe.
    pub(crate) async fn freed(&self) {
        // The sender lives as long as `self`.
        let _ = self.free.subscribe().wait_for(|free| *free > 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[tokio::test]
    async fn slots_are_taken_up_to_what_is_free() {
        let slots = Slots::new(3);
        assert_eq!((slots.reserve(2), slots.reserve(2), slots.reserve(1)), (2, 1, 0));
        slots.release(2);
        slots.freed().await;
        assert_eq!(slots.reserve(9), 2);
    }
}
