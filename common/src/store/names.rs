//! The names of workers: a key with a TTL says which incarnation holds one. Every change of it is one atomic command.

use std::time::Duration;

use redis::Pipeline;

use super::Store;
use super::read::{first, get};
use crate::error::{Error, Result};
use crate::keys;
use crate::name::{Incarnation, WorkerName};
use crate::time::as_ms;

/// Sets the name to another incarnation, if it is still the expected one's. Two that find the same dead one race here.
const TAKE_OVER: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1";
/// Frees the name, if it is still that incarnation's.
const FREE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

impl Store {
    /// Takes a name that nobody holds, for `ttl`. None: it is this incarnation's now, or was already; else who holds it.
    ///
    /// # Errors
    /// Any error of Redis; a repeat tells what became of it.
    pub async fn take_name(
        &self,
        name: &WorkerName,
        incarnation: &Incarnation,
        ttl: Duration,
    ) -> Result<Option<Incarnation>> {
        let mut pipeline = Pipeline::new();
        let set = pipeline.cmd("SET").arg(keys::name(self.namespace(), name)).arg(incarnation.as_str());
        set.arg("NX").arg("GET").arg("PX").arg(as_ms(ttl));
        let held: Option<String> = get(first(self.commands(&pipeline).await?)?)?;
        match held {
            Some(held) if held != incarnation.as_str() => Incarnation::new(held)
                .map(Some)
                .map_err(|_| Error::ForeignData { key: keys::name(self.namespace(), name) }),
            Some(_) | None => Ok(None),
        }
    }

    /// Takes a name over from `holder`, who is dead. False: it is no longer that one's.
    ///
    /// # Errors
    /// Any error of Redis; [`take_name`](Self::take_name) tells what became of it.
    pub async fn take_over_name(
        &self,
        name: &WorkerName,
        holder: &Incarnation,
        incarnation: &Incarnation,
        ttl: Duration,
    ) -> Result<bool> {
        let mut pipeline = Pipeline::new();
        let eval = pipeline.cmd("EVAL").arg(TAKE_OVER).arg(1).arg(keys::name(self.namespace(), name));
        eval.arg(holder.as_str()).arg(incarnation.as_str()).arg(as_ms(ttl));
        get(first(self.commands(&pipeline).await?)?)
    }

    /// Holds a name for another `ttl`, and takes it again if it had lapsed. None: it is this incarnation's; else who holds
    /// it.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn renew_name(
        &self,
        name: &WorkerName,
        incarnation: &Incarnation,
        ttl: Duration,
    ) -> Result<Option<Incarnation>> {
        // One command where all is well. That it lengthens another holder's time does no harm: that one lives, or its
        // entry lapses.
        let mut pipeline = Pipeline::new();
        pipeline.cmd("GETEX").arg(keys::name(self.namespace(), name)).arg("PX").arg(as_ms(ttl));
        let held: Option<String> = get(first(self.commands(&pipeline).await?)?)?;
        match held {
            Some(held) if held == incarnation.as_str() => Ok(None),
            Some(_) | None => self.take_name(name, incarnation, ttl).await,
        }
    }

    /// Frees a name, if this incarnation holds it.
    ///
    /// # Errors
    /// Any error of Redis.
    pub async fn free_name(&self, name: &WorkerName, incarnation: &Incarnation) -> Result<()> {
        let mut pipeline = Pipeline::new();
        let eval = pipeline.cmd("EVAL").arg(FREE).arg(1).arg(keys::name(self.namespace(), name));
        eval.arg(incarnation.as_str());
        self.commands(&pipeline).await.map(drop)
    }
}
