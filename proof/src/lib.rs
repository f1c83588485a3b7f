//! Proof: the protocol as a pure model, and what holds the real scripts against it.
//!
//! - [`words`]: calls, answers and what can be seen of a queue, in the words that all layers share
//!
//! `docs/proof.md` says what is proven, how far, and what is not.

pub mod words;
