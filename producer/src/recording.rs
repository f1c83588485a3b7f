//! A producer without a Redis, for tests of services that enqueue.

use std::sync::Arc;

use leasehold_common::store::Store;
use leasehold_common::task::{self, Task};
use leasehold_common::transport::{Accepted, RecordingTransport};

use crate::error::Result;
use crate::{Namespace, Producer};

/// What a recording producer was given.
///
/// ```
/// use leasehold_producer::{Producer, Task};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, PartialEq, Debug)]
/// struct Greet { name: String }
/// impl Task for Greet {
///     const NAME: &'static str = "greet";
///     type Output = String;
/// }
///
/// // What a service does when somebody signs up.
/// async fn sign_up(producer: &Producer, name: &str) -> leasehold_producer::Result<()> {
///     producer.enqueue(Greet { name: name.to_owned() }).lane(name).await?;
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (producer, recording) = Producer::recording();
/// sign_up(&producer, "ada").await?;
/// assert_eq!(recording.of::<Greet>()?, [Greet { name: "ada".into() }]);
/// assert_eq!(recording.tasks()[0].body.lane.as_ref().unwrap().as_str(), "ada");
/// # Ok::<(), leasehold_producer::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Recording(Arc<RecordingTransport>);

impl Recording {
    /// Every task that was accepted, in order. One that was given again under its id is not there twice.
    #[must_use]
    pub fn tasks(&self) -> Vec<Accepted> {
        self.0.accepted()
    }

    /// The payloads of the tasks of one type, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a payload that is no `T`.
    pub fn of<T: Task>(&self) -> Result<Vec<T>> {
        let named = self.tasks().into_iter().filter(|task| task.body.name.as_str() == T::NAME);
        named.map(|task| Ok(task::decode("payload", &task.body.payload)?)).collect()
    }

    /// Forgets what was accepted.
    pub fn clear(&self) {
        self.0.clear();
    }
}

impl Producer {
    /// A producer that takes tasks as any other, with every check, and keeps them instead of sending them to Redis.
    /// Whatever else it is asked for (waiting, aborting, reading) is refused and says so.
    #[must_use]
    pub fn recording() -> (Self, Recording) {
        let transport = Arc::new(RecordingTransport::default());
        let store = Store::over(Arc::clone(&transport) as _, Namespace::default());
        (Self::unchecked(store), Recording(transport))
    }
}
