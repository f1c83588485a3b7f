//! Proof: the protocol as a pure model, and what holds the real scripts against it.
//!
//! - [`words`]: calls, answers and what can be seen of a queue, in the words that all layers share
//! - [`caller`]: such calls as the store takes them; [`direct`]: the way to Redis; [`view`]: all keys at one moment
//! - [`model`]: the protocol as plain data; [`real`]: the real scripts; each plays such calls
//! - [`explore`]: every interleaving of small worlds, on the real scripts
//!
//! `docs/proof.md` says what is proven, how far, and what is not.

pub mod caller;
pub mod direct;
pub mod explore;
pub mod model;
pub mod real;
pub mod view;
pub mod words;
