//! Free slots of a worker, over all its queues.

use tokio::sync::Semaphore;

/// How many tasks may run at once in the whole worker. Queues that wait for a slot get one in their turn, so
/// that no queue with a backlog starves the others.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Semaphore,
}

impl Slots {
    /// So many slots.
    pub(crate) fn new(total: usize) -> Self {
        Self { free: Semaphore::new(total) }
    }

    /// Takes up to `most` slots that nobody waits for.
    pub(crate) fn reserve(&self, most: usize) -> usize {
        let mut taken = 0;
        while taken < most
            && let Ok(slot) = self.free.try_acquire()
        {
            slot.forget();
            taken += 1;
        }
        taken
    }

    /// Gives slots back.
    pub(crate) fn release(&self, count: usize) {
        self.free.add_permits(count);
    }

    /// Are all slots taken?
    pub(crate) fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Waits for its turn and takes one slot. Cancel-safe: a place in the queue is all that is lost.
    pub(crate) async fn take_one(&self) {
        // It is never closed.
        if let Ok(slot) = self.free.acquire().await {
            slot.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn slots_are_taken_up_to_what_is_free() {
        let slots = Slots::new(3);
        assert_eq!((slots.reserve(2), slots.reserve(2), slots.reserve(1)), (2, 1, 0));
        assert!(slots.is_full());
        slots.release(2);
        slots.take_one().await;
        assert_eq!(slots.reserve(9), 1);
    }

    #[tokio::test]
    async fn whoever_waits_comes_first() {
        let slots = Slots::new(1);
        assert_eq!(slots.reserve(1), 1);
        let mut waiting = Box::pin(slots.take_one());
        assert!(waiting.as_mut().now_or_never().is_none());
        slots.release(1);
        assert_eq!(slots.reserve(1), 0, "the slot is the waiting one's");
        waiting.await;
    }
}
