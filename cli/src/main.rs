//! Placeholder.
#[expect(dead_code, unused_imports, reason = "no command starts a private Redis yet")]
mod private_redis;

fn main() {}
