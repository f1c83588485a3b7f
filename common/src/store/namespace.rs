//! A whole namespace, for those that were made for a while: demos and tests.

use redis::{Pipeline, Value};

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};
use crate::name::Namespace;

/// About so many keys a call.
const PAGE: usize = 200;

impl Store {
    /// Removes every key of the namespace, whatever it is. Nobody may be working in it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the default namespace: what lies there was not made for a while. Any error of Redis;
    /// some keys are removed then.
    pub async fn remove_namespace(&self) -> Result<()> {
        if *self.namespace() == Namespace::default() {
            return Err(Error::invalid("namespace", "the default namespace is never removed as a whole"));
        }
        self.each_page(async |keys| {
            let mut pipeline = Pipeline::new();
            pipeline.cmd("UNLINK").arg(keys);
            self.commands(&pipeline).await.map(drop)
        })
        .await
    }

    /// How many keys the namespace has. Costs a scan of the whole Redis.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn count_keys(&self) -> Result<u64> {
        let mut count = 0;
        self.each_page(async |keys| {
            count += keys.len() as u64;
            Ok(())
        })
        .await?;
        Ok(count)
    }

    /// Shows the keys, page by page. The namespace is a checked name: nothing in it is a pattern.
    async fn each_page(&self, mut see: impl AsyncFnMut(Vec<Vec<u8>>) -> Result<()>) -> Result<()> {
        let mut cursor = 0;
        loop {
            let mut pipeline = Pipeline::new();
            let pattern = format!("{}:*", self.namespace());
            pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
            let page: Value = first(self.commands(&pipeline).await?)?;
            let (next, keys): (u64, Vec<Vec<u8>>) = get(page)?;
            if !keys.is_empty() {
                see(keys).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}
