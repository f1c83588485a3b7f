//! Rules of this repository that a machine can check: arrows between crates, sizes, names, docs.
//!
//! Each test lists every offence with its place, so that one run shows all there is to mend.

mod containers;
mod crates;
mod docs;
mod files;
mod rows;
mod source;

use source::Offences;
