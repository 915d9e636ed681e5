//! The operations of an application that the admin port calls.

use super::{Engine, Inner};
use crate::admin::target::AdminTarget;
use crate::query::{CommittedSnapshot, FollowSpec, Follower};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_log::ClientCounts;
use stoatflow_operators::ForeignCode;
use stoatflow_plan::Store;
use stoatflow_state::{DatabaseFigures, StoreSize};

/// Doesn't keep the application alive.
pub(super) struct EngineTarget(pub Weak<Inner>);

impl fmt::Debug for EngineTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineTarget")
    }
}

impl EngineTarget {
    fn engine(&self) -> Result<Engine> {
        let inner = self.0.upgrade();
        inner
            .map(|inner| Engine { inner })
            .ok_or_else(|| Error::config("this application has ended").hint("start it again"))
    }
}

impl AdminTarget for EngineTarget {
    fn snapshot(&self, store: Option<&str>) -> Result<CommittedSnapshot> {
        self.engine()?.snapshot(store, &[], Duration::ZERO)
    }

    fn shared_snapshot(&self, store: &Store) -> Option<CommittedSnapshot> {
        let inner = self.0.upgrade()?;
        inner.readers.shared_snapshot(&inner.spec.plan, store)
    }

    fn follow(&self, store: &Store, spec: &FollowSpec) -> Result<Follower> {
        self.engine()?.follow_as(store, spec)
    }

    fn is_committed(&self, wanted: &[(TopicPartition, Offset)]) -> Result<bool> {
        self.engine()?.inner.readers.is_committed(wanted)
    }

    fn store_sizes(&self) -> Result<Vec<(String, StoreSize)>> {
        let engine = self.engine()?;
        let backend = engine.inner.readers.state()?;
        let spec = &engine.inner.spec;
        let stores = spec.specs(&spec.timing())?;
        let sizes = (stores.into_iter()).map(|store| (store.name, backend.size(store.id)));
        Ok(sizes.collect())
    }

    fn database(&self) -> Result<Option<DatabaseFigures>> {
        Ok(self.engine()?.inner.readers.state()?.database())
    }

    fn set_paused(&self, paused: bool) -> Result<()> {
        let engine = self.engine()?;
        if paused {
            engine.pause();
        } else {
            engine.resume();
        }
        Ok(())
    }

    fn client_counts(&self) -> Result<Vec<ClientCounts>> {
        Ok(self.engine()?.inner.spec.components.broker.client_counts())
    }

    fn is_paused(&self) -> Result<bool> {
        Ok(self.engine()?.is_paused())
    }

    fn foreign(&self) -> Result<Arc<ForeignCode>> {
        Ok(Arc::clone(&self.engine()?.inner.spec.foreign))
    }
}
