//! Descriptors from the user's input: .proto files, their text, and descriptor sets that hold more than
//! needed.
//!
//! Returns the bytes of a `FileDescriptorSet`. Reads files once, when a serde is created; never runs
//! protoc.

use super::compile::{EDITIONS, find, pool};
use base64::prelude::{BASE64_STANDARD, Engine};
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use protox::Compiler;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};
use protox::prost::Message;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use stoatflow_core::{Error, Result};

/// The file name given to a text.
const TEXT: &str = "schema.proto";

/// A text that is compiled together with files.
struct One(String);

impl FileResolver for One {
    fn open_file(&self, name: &str) -> std::result::Result<File, protox::Error> {
        if name == TEXT {
            return File::from_source(TEXT, &self.0);
        }
        Err(protox::Error::file_not_found(name))
    }
}

/// Files from a registry.
struct Stored(BTreeMap<String, String>);

impl FileResolver for Stored {
    fn open_file(&self, name: &str) -> std::result::Result<File, protox::Error> {
        match self.0.get(name) {
            Some(content) => parsed(name, content),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// A file from a registry: the text of a .proto file, or its descriptor in base64.
pub(super) fn parsed(name: &str, content: &str) -> std::result::Result<File, protox::Error> {
    // No .proto file is valid base64: it contains spaces or characters that base64 doesn't have.
    let descriptor = BASE64_STANDARD.decode(content.trim()).ok();
    let descriptor = descriptor.and_then(|bytes| FileDescriptorProto::decode(&*bytes).ok());
    let Some(mut descriptor) = descriptor else {
        return File::from_source(name, content);
    };
    descriptor.name = Some(name.to_owned());
    Ok(File::from_file_descriptor_proto(descriptor))
}

/// Compiles a file from a registry, with its imports by the names they have there.
///
/// # Errors
/// `Topology` for a file that doesn't compile.
pub fn of_registered(content: &str, imports: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let mut files = imports.clone();
    files.insert(TEXT.to_owned(), content.to_owned());
    let mut resolver = ChainFileResolver::new();
    resolver.add(Stored(files));
    compiled(resolver, &[], Path::new(TEXT))
}

/// A file of a descriptor set.
pub struct ProtoFile {
    /// Its name, as other files import it.
    pub name: String,
    /// The names of its imports.
    pub imports: Vec<String>,
    /// Its descriptor.
    pub descriptor: Vec<u8>,
}

/// The files of a set, and the name of the one that has the message.
///
/// # Errors
/// `Topology` for invalid descriptors, and for a message that they don't contain.
pub fn files(descriptors: &[u8], message: &str) -> Result<(String, Vec<ProtoFile>)> {
    let pool = pool(descriptors)?;
    let own = find(&pool, message)?.parent_file().name().to_owned();
    let files = pool.files().map(|file| {
        let descriptor = file.file_descriptor_proto();
        ProtoFile {
            name: file.name().to_owned(),
            imports: descriptor.dependency.clone(),
            descriptor: descriptor.encode_to_vec(),
        }
    });
    Ok((own, files.collect()))
}

/// Compiles the text of a .proto file, which may import from these directories.
///
/// # Errors
/// `Topology` for text that doesn't compile, with line and column.
pub fn of_text(text: &str, folders: &[PathBuf]) -> Result<Vec<u8>> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(One(text.to_owned()));
    compiled(resolver, folders, Path::new(TEXT))
}

/// Compiles a .proto file, which may import from these directories.
///
/// # Errors
/// `Topology` for a file that can't be read or doesn't compile, with file, line and column.
pub fn of_file(path: &Path, folders: &[PathBuf]) -> Result<Vec<u8>> {
    compiled(ChainFileResolver::new(), folders, path)
}

fn compiled(mut resolver: ChainFileResolver, folders: &[PathBuf], path: &Path) -> Result<Vec<u8>> {
    for folder in folders {
        resolver.add(IncludeFileResolver::new(folder.clone()));
    }
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    compiler.open_file(path).map_err(|e| refused(&e, folders))?;
    Ok(compiler.encode_file_descriptor_set())
}

fn refused(error: &protox::Error, folders: &[PathBuf]) -> Error {
    // The debug format contains file, line and column.
    let said = format!("{error:?}");
    let refused = Error::topology(format!("this is no Protobuf schema: {said}"));
    if said.contains("edition") {
        return refused.hint(EDITIONS);
    }
    if error.is_file_not_found() {
        let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
        let folders = match folders.as_slice() {
            [] => "there are no folders to look in".to_owned(),
            some => format!("looked in {}", some.join(", ")),
        };
        return refused.hint(format!(
            "name the folder that imports begin in: include=[...] ({folders})"
        ));
    }
    refused.hint("correct the .proto file there")
}

/// The files that a message needs, without comments, and the message's name, which may be omitted if
/// there is only one.
///
/// # Errors
/// `Topology` for invalid descriptors, and if it isn't clear which message is meant.
pub fn needed(descriptors: &[u8], message: Option<&str>) -> Result<(Vec<u8>, String)> {
    let pool = pool(descriptors)?;
    let message = match message {
        Some(message) => message.to_owned(),
        None => only_one(&pool)?,
    };
    let found = find(&pool, &message)?;
    let mut wanted = HashSet::new();
    let mut waiting = vec![found.parent_file()];
    while let Some(file) = waiting.pop() {
        if wanted.insert(file.name().to_owned()) {
            waiting.extend(file.dependencies());
        }
    }
    let mut set = Vec::new();
    for file in pool.files().filter(|file| wanted.contains(file.name())) {
        let mut file = file.file_descriptor_proto().clone();
        file.source_code_info = None;
        // A `FileDescriptorSet` is a message with only one field, 1: the files.
        set.push(0x0a);
        set.extend(file.encode_length_delimited_to_vec());
    }
    Ok((set, message))
}

/// The message of the last file, which is the one that was given: its imports come before it.
fn only_one(pool: &DescriptorPool) -> Result<String> {
    let last = pool.files().last();
    let names: Vec<String> = last
        .iter()
        .flat_map(|file| file.messages().map(|m| m.full_name().to_owned()))
        .collect();
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Error::topology("the Protobuf schema has no message")
            .hint("give the file that defines the message")),
        several => Err(Error::topology(format!(
            "the Protobuf schema has several messages: {}",
            several.join(", ")
        ))
        .hint(format!(
            "say which one is meant: message=\"{}\"",
            several[0]
        ))),
    }
}
