//! The invariants of a queue, checked on a live system.

#[cfg(test)]
mod tests {}
