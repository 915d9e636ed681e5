//! Which messages a registered file has, and where in it: what the numbers behind a schema id mean.
//!
//! Takes the text of a .proto file or its descriptor in base64, gives the places of one message.
//! The file alone will do: nothing that it imports is looked at. Entries of maps are messages
//! within messages to protoc, and so to Confluent's serializers for Python, Go and .NET; the one
//! for Java counts without them. Either is right here.

use super::sources::parsed;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use std::collections::BTreeMap;
use stoatflow_core::{Error, Result};

/// See the module.
#[derive(Debug)]
pub(super) struct Places {
    /// Where the message is.
    own: Vec<Vec<i32>>,
    /// What is elsewhere.
    names: BTreeMap<Vec<i32>, String>,
}

impl Places {
    /// Of a message, by its full name, in a file.
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

    /// Is the message there?
    pub fn has(&self, place: &[i32]) -> bool {
        self.own.iter().any(|own| own == place)
    }

    /// What is there.
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
