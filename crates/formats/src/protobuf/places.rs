//! The messages of a registered file and their positions: the meaning of the indexes after a schema id.
//!
//! Takes the text of a .proto file or its descriptor in base64, returns the positions of one message.
//! The file alone is enough: its imports are not read. protoc counts entries of maps as nested messages,
//! and so do Confluent's serializers for Python, Go and .NET; the one for Java doesn't count them. Both
//! are accepted.

use super::sources::parsed;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use std::collections::BTreeMap;
use stoatflow_core::{Error, Result};

/// See the module.
#[derive(Debug)]
pub(super) struct Places {
    /// The positions of the message.
    own: Vec<Vec<i32>>,
    /// The names of other messages by position.
    names: BTreeMap<Vec<i32>, String>,
}

impl Places {
    /// The positions of a message, by its full name, in a file.
    pub fn of(file: &str, message: &str) -> Result<Self> {
        let file = parsed("schema.proto", file).map_err(|e| {
            Error::serde(format!("its schema is no Protobuf file: {e:?}"))
                .hint("proto2 and proto3 can be read, editions can't yet")
        })?;
        let file = file.file_descriptor_proto();
        let mut places = Self {
            own: Vec::new(),
            names: BTreeMap::new(),
        };
        for counts_maps in [false, true] {
            let mut found = BTreeMap::new();
            collect(file, counts_maps, &mut found);
            places.own.extend(
                found
                    .iter()
                    .filter(|(_, name)| *name == message)
                    .map(|(place, _)| place.clone()),
            );
            places.names.extend(found);
        }
        Ok(places)
    }

    /// Whether the message is at this position.
    pub fn has(&self, place: &[i32]) -> bool {
        self.own.iter().any(|own| own == place)
    }

    /// The message at this position, if it is another one.
    pub fn name(&self, place: &[i32]) -> Option<&str> {
        self.names.get(place).map(String::as_str)
    }
}

fn collect(file: &FileDescriptorProto, counts_maps: bool, found: &mut BTreeMap<Vec<i32>, String>) {
    let package = file.package().to_owned();
    let mut waiting: Vec<(Vec<i32>, String, &[DescriptorProto])> =
        vec![(Vec::new(), package, &file.message_type)];
    while let Some((outer, prefix, messages)) = waiting.pop() {
        let is_entry = |m: &&DescriptorProto| m.options.as_ref().is_some_and(|o| o.map_entry());
        let counted = messages.iter().filter(|m| counts_maps || !is_entry(m));
        for (at, message) in (0..).zip(counted) {
            let mut place = outer.clone();
            place.push(at);
            let name = match prefix.as_str() {
                "" => message.name().to_owned(),
                prefix => format!("{prefix}.{}", message.name()),
            };
            waiting.push((place.clone(), name.clone(), &message.nested_type));
            found.insert(place, name);
        }
    }
}
