//! The imports of a Rust file, and the file of its crate that each one leads to.
//!
//! Takes code without comments and literals. Reads `use` declarations and the paths within code; a name
//! that another file only re-exports is followed to the file that declares it. Paths that macros create
//! are not seen.

use crate::rust::RustFile;
use std::collections::BTreeMap;

/// One path of a file.
#[derive(Debug)]
pub struct Import {
    /// `["crate", "convert", "to_py"]`; the last is `*` for all names.
    pub path: Vec<String>,
    /// The name it has in the importing file.
    name: String,
    /// `pub use`: re-exported, not used.
    pub public: bool,
}

/// Resolves names within a crate.
pub struct Resolver<'a> {
    files: BTreeMap<&'a [String], &'a RustFile>,
    imports: BTreeMap<&'a [String], Vec<Import>>,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver for the files of one crate.
    pub fn new(files: &[&'a RustFile]) -> Self {
        let by_module: BTreeMap<_, _> = files.iter().map(|f| (f.module.as_slice(), *f)).collect();
        let declared = files
            .iter()
            .map(|f| (f.module.as_slice(), declarations(&f.code)));
        Self {
            imports: declared.collect(),
            files: by_module,
        }
    }

    /// Whether a file exists for this submodule of the given file.
    pub fn has_child(&self, file: &RustFile, name: &str) -> bool {
        let mut module = file.module.clone();
        module.push(name.to_owned());
        self.files.contains_key(module.as_slice())
    }

    /// The file that declares what a path names; `None` if it belongs to another crate.
    pub fn resolve(&self, from: &RustFile, path: &[String]) -> Option<&'a RustFile> {
        self.follow(from, path, 0)
    }

    fn follow(&self, from: &RustFile, path: &[String], hops: usize) -> Option<&'a RustFile> {
        let mut module = from.module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => module.clear(),
            "self" | "super" => {}
            name if self.has_child(from, name) => {
                module.push(name.to_owned());
            }
            _ => return None,
        }
        while rest.first().is_some_and(|part| part == "super") {
            module.pop();
            rest = &rest[1..];
        }
        if rest.len() == path.len() {
            rest = &rest[1..];
        }
        while let Some(part) = rest.first() {
            module.push(part.clone());
            if !self.files.contains_key(module.as_slice()) {
                module.pop();
                break;
            }
            rest = &rest[1..];
        }
        let file = *self.files.get(module.as_slice())?;
        let reexported = rest.first().filter(|_| hops < 8).and_then(|name| {
            self.imports[file.module.as_slice()]
                .iter()
                .find_map(|import| {
                    let all = import.name == "*";
                    if !all && import.name != *name {
                        return None;
                    }
                    let inside = self.follow(file, &import.path, hops + 1)?;
                    (!all || declares(&inside.code, name)).then_some(inside)
                })
        });
        Some(reexported.unwrap_or(file))
    }
}

/// Every path to another module, in `use` declarations and within code.
pub fn imports(code: &str, is_child: impl Fn(&str) -> bool) -> Vec<Import> {
    let mut found = declarations(code);
    for (at, _) in code.match_indices("::") {
        let start = code[..at]
            .rfind(|c: char| !is_word(c))
            .map_or(0, |before| before + 1);
        let first = &code[start..at];
        let begins = !code[..start].ends_with(':');
        if begins && (matches!(first, "crate" | "super" | "self") || is_child(first)) {
            let end = code[start..].find(|c: char| !is_word(c) && c != ':');
            let whole = &code[start..end.map_or(code.len(), |end| start + end)];
            let path: Vec<String> = parts(whole);
            let name = path.last().cloned().unwrap_or_default();
            found.push(Import {
                path,
                name,
                public: is_reexport(&code[..start]),
            });
        }
    }
    found
}

/// Whether the path that follows belongs to a `pub use`.
fn is_reexport(before: &str) -> bool {
    let statement = before.rsplit(';').next().unwrap_or_default();
    statement
        .rsplit_once("use ")
        .is_some_and(|(visibility, tree)| {
            visibility
                .lines()
                .last()
                .is_some_and(|line| line.trim_start().starts_with("pub"))
                && !tree.contains(['=', '('])
        })
}

fn declarations(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let declares = before.is_empty()
            || before == "pub"
            || (before.starts_with("pub(") && before.ends_with(')'));
        if let Some(end) = code[at..].find(';').filter(|_| declares) {
            tree(&code[at + 4..at + end], &[], !before.is_empty(), &mut found);
        }
    }
    found
}

/// Splits `a::{b, c::D as E}` into one path each.
fn tree(text: &str, prefix: &[String], public: bool, found: &mut Vec<Import>) {
    let text = text.trim();
    if let Some((head, list)) = text.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(parts(head));
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        for branch in branches(list) {
            tree(branch, &prefix, public, found);
        }
        return;
    }
    let (path, name) = text
        .split_once(" as ")
        .map_or((text, None), |(path, name)| (path, Some(name.trim())));
    let mut whole = prefix.to_vec();
    whole.extend(parts(path));
    if whole.len() > 1 && whole.last().is_some_and(|last| last == "self") {
        whole.pop();
    }
    if let Some(last) = whole.last().cloned() {
        let name = name.map_or(last, str::to_owned);
        found.push(Import {
            path: whole,
            name,
            public,
        });
    }
}

/// Splits at the commas outside of braces.
fn branches(list: &str) -> Vec<&str> {
    let mut depth = 0usize;
    list.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn parts(path: &str) -> Vec<String> {
    let parts = path.split("::").map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn declares(code: &str, name: &str) -> bool {
    const KINDS: &[&str] = &[
        "struct ", "enum ", "trait ", "type ", "fn ", "const ", "static ", "mod ", "union ",
    ];
    code.match_indices(name).any(|(at, _)| {
        KINDS.iter().any(|kind| code[..at].ends_with(kind))
            && !code[at + name.len()..].starts_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
