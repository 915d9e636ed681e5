//! The tables that cross the border beside the plan: callables and custom serdes.
//!
//! Takes indices from the plan, gives what they stand for. Owns nothing but references.

use crate::{AsyncUdf, ProcessorSupplier, Runtime, Udf};
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, Error, ProcessorId, Result, Serde};
use stoatflow_formats::protobuf::Decode;
use stoatflow_plan::SerdeSpec;

/// Callables and custom serdes by number.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// Callables, as the plan numbers them.
    pub udfs: Vec<Arc<dyn Udf>>,
    /// Custom serdes, as the plan numbers them.
    pub serdes: Vec<Arc<dyn CustomSerde>>,
    /// Processors, as the plan numbers them.
    pub processors: Vec<Arc<dyn ProcessorSupplier>>,
    /// Async callables, by the numbers that they have among `udfs`; what lanes wait for is called there.
    pub calls: BTreeMap<u32, Arc<dyn AsyncUdf>>,
    /// Where they come from.
    pub runtime: Option<Arc<dyn Runtime>>,
}

impl Foreign {
    /// A callable by its number.
    ///
    /// # Errors
    /// `Internal` if the plan and the table don't belong together.
    pub fn udf(&self, index: u32) -> Result<Arc<dyn Udf>> {
        self.udfs.get(index as usize).cloned().ok_or_else(|| {
            Error::internal(format!(
                "the plan names callable {index}, but only {} came with it",
                self.udfs.len()
            ))
        })
    }

    /// An async callable by its number.
    ///
    /// # Errors
    /// `Internal` if the plan and the table don't belong together.
    pub fn call(&self, index: u32) -> Result<Arc<dyn AsyncUdf>> {
        self.calls.get(&index).cloned().ok_or_else(|| {
            Error::internal(format!(
                "the plan awaits callable {index}, but it came without its event loop"
            ))
        })
    }

    /// A processor's supplier by its number.
    ///
    /// # Errors
    /// `Internal` if the plan and the table don't belong together.
    pub fn processor(&self, id: ProcessorId) -> Result<Arc<dyn ProcessorSupplier>> {
        self.processors.get(id.0 as usize).cloned().ok_or_else(|| {
            Error::internal(format!(
                "the plan names processor {id}, but only {} came with it",
                self.processors.len()
            ))
        })
    }

    /// The serde that the plan names.
    ///
    /// # Errors
    /// `Topology` for a name that doesn't exist, `Internal` if plan and table don't belong together.
    pub fn serde(&self, spec: &SerdeSpec) -> Result<Serde> {
        match spec {
            SerdeSpec::Builtin(name) => Serde::builtin(name).ok_or_else(|| {
                Error::topology(format!("there is no serde '{name}'")).hint(
                    "use bytes, string, int32, int64, double, json, avro, protobuf, or a serde of your own",
                )
            }),
            SerdeSpec::TimeWindowed {
                time_windowed,
                size_ms,
            } => Ok(Serde::TimeWindowed {
                inner: Arc::new(self.serde(time_windowed)?),
                size_ms: *size_ms,
            }),
            SerdeSpec::SessionWindowed { session_windowed } => Ok(Serde::SessionWindowed(
                Arc::new(self.serde(session_windowed)?),
            )),
            SerdeSpec::Avro { avro } => Ok(Serde::Custom(avro.format()?)),
            SerdeSpec::Protobuf { protobuf } => {
                let format = protobuf.format()?;
                match protobuf.decode {
                    Decode::Message(custom) => {
                        let shown = format.shown_by(self.custom(custom)?);
                        Ok(Serde::Custom(Arc::new(shown)))
                    }
                    Decode::Lazy | Decode::Dict => Ok(Serde::Custom(format)),
                }
            }
            SerdeSpec::Custom { custom } => self.custom(*custom).map(Serde::Custom),
        }
    }
    fn custom(&self, index: u32) -> Result<Arc<dyn CustomSerde>> {
        self.serdes.get(index as usize).cloned().ok_or_else(|| {
            Error::internal(format!(
                "the plan names custom serde {index}, but only {} came with it",
                self.serdes.len()
            ))
        })
    }
}
