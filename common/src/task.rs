//! What the user's types say of themselves: a task's name, its queue, its output and its defaults.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::Bounds;
use crate::error::{Error, Result};
use crate::origin::Origins;
use crate::policy::{Policy, Priority};
use crate::result_rule::ResultRule;

/// The queue of tasks that name none.
pub const DEFAULT_QUEUE: &str = "default";

/// A kind of task: the type is its payload.
///
/// ```
/// use leasehold_common::task::Task;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     url: String,
///     width: u32,
/// }
///
/// impl Task for Resize {
///     const NAME: &'static str = "resize";
///     type Output = u64;
/// }
/// ```
pub trait Task: Serialize + DeserializeOwned + Send + 'static {
    /// The name that enqueues and handlers meet under: `[A-Za-z0-9._-]{1,64}`.
    const NAME: &'static str;
    /// The queue, unless the enqueue names another. Defaults to `default`.
    const QUEUE: &'static str = DEFAULT_QUEUE;
    /// What the handler returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Bounds and priority, unless the enqueue says otherwise. Defaults to those of [`Policy`].
    fn spec() -> Spec {
        Spec::default()
    }
}

/// A task's bounds, its place among others, and what counts as its result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// How often, how long, how soon again.
    pub policy: Policy,
    /// Before or after which others.
    pub priority: Priority,
    /// Its time as a whole, silence, budgets.
    pub bounds: Bounds,
    /// What its output must be like. Defaults to anything.
    pub result_rule: ResultRule,
    /// Who set its bounds, where that is not plain from whose spec it is. Defaults to nothing, which is right for those
    /// who write no gateway.
    pub origins: Origins,
}

/// Encodes a payload or an output as MessagePack: structs as maps, so that fields may be added later.
///
/// # Errors
/// [`Error::Invalid`] naming `field` when the value cannot be encoded.
pub fn encode<T: Serialize + ?Sized>(field: &'static str, value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(|e| Error::invalid(field, format!("cannot be encoded: {e}")))
}

/// Decodes a payload or an output.
///
/// # Errors
/// [`Error::Invalid`] naming `field`, without quoting the data.
pub fn decode<T: DeserializeOwned>(field: &'static str, bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes)
        .map_err(|e| Error::invalid(field, format!("cannot be decoded: {}", reason(&e))))
}

/// Why, without the data: a decode error may quote what it met.
fn reason(error: &rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error as E;
    match error {
        E::TypeMismatch(_) => "a value is of another type".to_owned(),
        E::Syntax(text) if text.starts_with("missing field") || text.starts_with("unknown field") => {
            crate::text::printable(crate::text::head(text, 120))
        }
        E::Syntax(_) => "a value is of another type or out of range".to_owned(),
        E::InvalidMarkerRead(_) | E::InvalidDataRead(_) => "it ends too early".to_owned(),
        _ => "it is not MessagePack of this type".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn a_decode_error_never_quotes_the_payload() {
        let bytes = encode("payload", &("secret-token", 1)).unwrap();
        let error = decode::<(u32, u32)>("payload", &bytes).unwrap_err().to_string();
        assert!(error.starts_with("invalid payload:") && !error.contains("secret"), "{error}");
    }
}
