//! The tables that come from the host language with the plan: callables and custom serdes.
//!
//! Takes indices from the plan, returns what they refer to. Owns only references.

use crate::custom_metrics::CustomMetrics;
use crate::{AsyncUdf, ProcessorSupplier, Runtime, Udf};
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{CustomSerde, Error, ProcessorId, Result, SchemaPlace, SchemaRegistry, Serde};
use stoatflow_formats::protobuf::Decode;
use stoatflow_plan::{SerdeSpec, Store};

/// Callables and custom serdes by number.
#[derive(Clone, Debug, Default)]
pub struct ForeignCode {
    /// Callables, as the plan numbers them.
    pub udfs: Vec<Arc<dyn Udf>>,
    /// Custom serdes, as the plan numbers them.
    pub serdes: Vec<Arc<dyn CustomSerde>>,
    /// Processors, as the plan numbers them.
    pub processors: Vec<Arc<dyn ProcessorSupplier>>,
    /// Async callables, by their numbers among `udfs`; calls that lanes wait for begin here.
    pub calls: BTreeMap<u32, Arc<dyn AsyncUdf>>,
    /// The runtime that they come from.
    pub runtime: Option<Arc<dyn Runtime>>,
    /// The application that runs them, once it is known: schemas of its internal data are registered
    /// under its name.
    pub application: Option<Arc<str>>,
    /// Metrics that the code defines.
    pub metrics: Arc<CustomMetrics>,
}

impl ForeignCode {
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
        let application = self.application.clone();
        self.serde_at(spec, &SchemaPlace::Internal { application })
    }

    /// The serde of a store's values: if the store keeps headers, of both.
    ///
    /// # Errors
    /// As [`Self::serde`].
    pub fn store_value(&self, store: &Store) -> Result<Serde> {
        let value = self.serde(&store.value)?;
        Ok(if store.headers {
            Serde::WithHeaders(Arc::new(value))
        } else {
            value
        })
    }

    /// The serde that the plan names, for keys or values of a topic that others read; without a topic, a
    /// function chooses one for each record. The registry is asked for the schema's id at once.
    ///
    /// # Errors
    /// As [`Self::serde`], and errors of the registry.
    pub fn topic_serde(
        &self,
        spec: &SerdeSpec,
        topic: Option<&str>,
        is_key: bool,
    ) -> Result<Serde> {
        self.serde_at(spec, &SchemaPlace::of(topic, is_key))
    }

    fn serde_at(&self, spec: &SerdeSpec, place: &SchemaPlace) -> Result<Serde> {
        match spec {
            SerdeSpec::Builtin(name) => Serde::builtin(name).ok_or_else(|| {
                Error::topology(format!("there is no serde '{name}'")).hint(
                    "use bytes, string, int32, int64, double, json, avro, protobuf, json_schema, or a serde of your own",
                )
            }),
            SerdeSpec::TimeWindowed {
                time_windowed,
                size_ms,
            } => Ok(Serde::TimeWindowed {
                inner: Arc::new(self.serde_at(time_windowed, place)?),
                size_ms: *size_ms,
            }),
            SerdeSpec::SessionWindowed { session_windowed } => Ok(Serde::SessionWindowed(
                Arc::new(self.serde_at(session_windowed, place)?),
            )),
            SerdeSpec::Avro { avro } => {
                let format = avro.format()?;
                let Some(number) = avro.registry else {
                    return Ok(Serde::Custom(format));
                };
                let format = format.registered(self.registry(number)?, place.clone());
                if is_asked_at_once(place) {
                    format.prepare()?;
                }
                Ok(Serde::Custom(Arc::new(format)))
            }
            SerdeSpec::Protobuf { protobuf } => {
                let mut format = protobuf.format()?;
                if let Some(number) = protobuf.registry {
                    let registered = format.registered(self.registry(number)?, place.clone());
                    if is_asked_at_once(place) {
                        registered.prepare()?;
                    }
                    format = Arc::new(registered);
                }
                if let Decode::Message(custom) = protobuf.decode {
                    format = Arc::new(format.shown_by(self.custom(custom)?));
                }
                Ok(Serde::Custom(format))
            }
            SerdeSpec::JsonSchema { json_schema } => {
                let format = json_schema.format()?;
                let Some(number) = json_schema.registry else {
                    return Ok(Serde::Custom(format));
                };
                let format = format.registered(self.registry(number)?, place.clone());
                if is_asked_at_once(place) {
                    format.prepare()?;
                }
                Ok(Serde::Custom(Arc::new(format)))
            }
            SerdeSpec::Custom { custom } => self.custom(*custom).map(Serde::Custom),
        }
    }

    fn registry(&self, index: u32) -> Result<Arc<dyn SchemaRegistry>> {
        self.custom(index)?.registry().ok_or_else(|| {
            Error::internal(format!("the plan's custom serde {index} knows no registry"))
        })
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

/// Whether the registry is asked at once. A schema of internal data is registered when the first value
/// is written.
const fn is_asked_at_once(place: &SchemaPlace) -> bool {
    !matches!(place, SchemaPlace::Internal { .. })
}
